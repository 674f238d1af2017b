"""Programs of the ``gl`` renderer, in GLSL 4.30. Colours are worked out as ``_surface_kernels`` does, from the same
arrays.

What a mesh lacks is left out when the programs are compiled, by names that are defined before them (llvmpipe runs
both sides of most branches): UV, LINEAR_FILTER, NEAREST_FILTER, COLORS, NORMAL or LIGHTS, CULL; and the kinds of a
pass of visibility, MASKED or LAYER. Such a pass writes, for every sample, the face that is seen (plus 1; 0 for none),
two of its barycentric weights and its inverse depth; a pass of colour or alpha reads that. Row 0 of a texture is the
image's top row.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["ALPHA", "COLOUR", "FULL_SCREEN", "RESOLVE", "VISIBILITY_FRAGMENT", "VISIBILITY_VERTEX", "source"]


def source(program: str, names: Iterable[str] = ()) -> str:
    """A program with its version and with ``names`` defined."""
    return "#version 430\n" + "".join(f"#define {name}\n" for name in names) + program


_MESH = """
layout(std430, binding = 0) readonly buffer B0 { float vertices[]; };
layout(std430, binding = 1) readonly buffer B1 { int faces[]; };
layout(std430, binding = 2) readonly buffer B2 { int order[]; };
layout(std430, binding = 3) readonly buffer B3 { int material[]; };
layout(std430, binding = 4) readonly buffer B4 { float uv[]; };
layout(std430, binding = 5) readonly buffer B5 { float colors[]; };
layout(std430, binding = 6) readonly buffer B6 { float normals[]; };
layout(std430, binding = 7) readonly buffer B7 { float looks[]; };
layout(std430, binding = 8) readonly buffer B8 { int kinds[]; };
layout(std430, binding = 9) readonly buffer B9 { uint texels[]; };
layout(std430, binding = 10) readonly buffer B10 { float decode[]; };
layout(std430, binding = 11) readonly buffer B11 { float encode[]; };
layout(std430, binding = 12) readonly buffer B12 { float lights[]; };
uniform vec3 origin;
uniform int n_lights;

const int LOOKS = 8, KINDS = 10, LIGHT = 16;
const int MODE = 0, AT = 1, WIDTH = 2, HEIGHT = 3, WRAP_U = 4, WRAP_V = 5, NEAREST = 6, ONE_SIDED = 7, UNLIT = 8;

vec3 at_vertex(int v) { return vec3(vertices[3 * v], vertices[3 * v + 1], vertices[3 * v + 2]); }
vec3 normal_of(int f) { return vec3(normals[3 * f], normals[3 * f + 1], normals[3 * f + 2]); }
float side_of(int f) { return dot(normal_of(f), origin - at_vertex(faces[3 * f])) >= 0.0 ? 1.0 : -1.0; }
"""

_SURFACE = """
#ifdef UV
int wrapped(int i, int n, int how) {
    if (how == 0) { int r = i % n; return r < 0 ? r + n : r; }
    if (how == 1) { int r = i % (2 * n); r = r < 0 ? r + 2 * n : r; return r < n ? r : 2 * n - 1 - r; }
    return clamp(i, 0, n - 1);
}

vec4 texel(int k) {
    uint t = texels[k];
    return vec4(decode[t & 255u], decode[(t >> 8) & 255u], decode[(t >> 16) & 255u], float(t >> 24) / 255.0);
}

vec4 textured(int m, vec2 q) {
    int at = kinds[KINDS * m + AT], w = kinds[KINDS * m + WIDTH], h = kinds[KINDS * m + HEIGHT];
    int how_u = kinds[KINDS * m + WRAP_U], how_v = kinds[KINDS * m + WRAP_V];
    vec2 p = clamp(q * vec2(w, h), -1e9, 1e9);
#ifdef NEAREST_FILTER
    ivec2 c = ivec2(floor(p));
    vec4 sharp = texel(at + wrapped(c.y, h, how_v) * w + wrapped(c.x, w, how_u));
#ifndef LINEAR_FILTER
    return sharp;
#else
    if (kinds[KINDS * m + NEAREST] == 1) return sharp;
#endif
#endif
#ifdef LINEAR_FILTER
    p -= 0.5;
    ivec2 i = ivec2(floor(p));
    vec2 s = p - vec2(i);
    int i0 = wrapped(i.x, w, how_u), i1 = wrapped(i.x + 1, w, how_u);
    int j0 = at + wrapped(i.y, h, how_v) * w, j1 = at + wrapped(i.y + 1, h, how_v) * w;
    return (1.0 - s.y) * ((1.0 - s.x) * texel(j0 + i0) + s.x * texel(j0 + i1))
           + s.y * ((1.0 - s.x) * texel(j1 + i0) + s.x * texel(j1 + i1));
#endif
}
#endif

vec4 base_of(int f, vec3 b) {
    int m = material[f];
    vec4 c = vec4(looks[LOOKS * m], looks[LOOKS * m + 1], looks[LOOKS * m + 2], looks[LOOKS * m + 3]);
#ifdef COLORS
    vec4 mixed = vec4(0.0);
    for (int k = 0; k < 3; ++k) {
        int a = 12 * f + 4 * k;
        mixed += b[k] * vec4(colors[a], colors[a + 1], colors[a + 2], colors[a + 3]);
    }
    c *= mixed;
#endif
#ifdef UV
    if (kinds[KINDS * m + AT] >= 0) {
        int a = 6 * f;
        c *= textured(m, b.x * vec2(uv[a], uv[a + 1]) + b.y * vec2(uv[a + 2], uv[a + 3])
                         + b.z * vec2(uv[a + 4], uv[a + 5]));
    }
#endif
    return c;
}
"""

VISIBILITY_VERTEX = _MESH + """
uniform mat3 rotation;
uniform vec3 shift;
uniform vec4 lens;
uniform vec2 size;
uniform float nearest;
uniform int first;
flat out int face;
out vec3 weights;

void main() {
    int corner = gl_VertexID % 3;
    face = order[first + gl_VertexID / 3];
    weights = vec3(corner == 0, corner == 1, corner == 2);
    vec3 p = rotation * at_vertex(faces[3 * face + corner]) + shift;
    // Clipped where z is below ``nearest``, and nowhere in the distance.
    gl_Position = vec4((2.0 * lens.x * p.x + (2.0 * lens.z - size.x) * p.z) / size.x,
                       (2.0 * lens.y * p.y + (2.0 * lens.w - size.y) * p.z) / size.y, p.z - 2.0 * nearest, p.z);
}
"""

VISIBILITY_FRAGMENT = _MESH + _SURFACE + """
uniform sampler2D before;
uniform sampler2D solid;
uniform int layer;
uniform vec2 range;
flat in int face;
in vec3 weights;
out vec4 seen;

void main() {
    // Samples are at the centres of pixels, the edges of faces on a grid of a 256th: weights may be a little outside.
    vec3 b = clamp(weights, 0.0, 1.0);
    b /= b.x + b.y + b.z;
    float inverse = gl_FragCoord.w;
    int m = material[face];
#ifdef CULL
    if (kinds[KINDS * m + ONE_SIDED] == 1 && side_of(face) < 0.0) discard;
#endif
#ifdef LAYER
    ivec2 at = ivec2(gl_FragCoord.xy);
    if (inverse <= texelFetch(solid, at, 0).w) discard;
    if (layer > 0) {
        vec4 last = texelFetch(before, at, 0);
        if (last.x == 0.0 || inverse > last.w || (inverse == last.w && float(face + 1) <= last.x)) discard;
    }
#endif
#ifdef MASKED
    if (base_of(face, b).a < looks[LOOKS * m + 7]) discard;
#endif
    seen = vec4(float(face + 1), b.y, b.z, inverse);
    // The same steps for any distance: a 24th power of two of the logarithm of the whole range.
    gl_FragDepth = clamp(log(1.0 / (inverse * range.x)) * range.y, 0.0, 1.0);
}
"""

FULL_SCREEN = """
void main() { gl_Position = vec4(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0, 0.0, 1.0); }
"""

_SEEN = """
uniform sampler2D visible;
uniform int opaque;

bool found(out int face, out vec3 b) {
    vec4 seen = texelFetch(visible, ivec2(gl_FragCoord.xy), 0);
    face = int(seen.x) - 1;
    b = vec3(1.0 - seen.y - seen.z, seen.yz);
    return face >= 0;
}
"""

COLOUR = _MESH + _SURFACE + _SEEN + """
out vec4 drawn;

float encoded(float x) {
    if (x <= 0.0) return 0.0;
    if (x >= 1.0) return 1.0;
    float s = sqrt(x) * 4096.0;
    int k = int(s);
    return mix(encode[k], encode[k + 1], s - float(k));
}

#ifdef LIGHTS
vec3 light_on(int f, vec3 b, float side) {
    vec3 p = b.x * at_vertex(faces[3 * f]) + b.y * at_vertex(faces[3 * f + 1]) + b.z * at_vertex(faces[3 * f + 2]);
    vec3 n = side * normal_of(f), total = vec3(0.0);
    for (int k = 0; k < n_lights; ++k) {
        int a = LIGHT * k;
        if (lights[a] > 2.5) {
            total += vec3(lights[a + 1], lights[a + 2], lights[a + 3]);
            continue;
        }
        vec3 axis = vec3(lights[a + 7], lights[a + 8], lights[a + 9]);
        vec3 to = -axis;
        float strength = 1.0;
        if (lights[a] > 0.5) {
            vec3 away = vec3(lights[a + 4], lights[a + 5], lights[a + 6]) - p;
            float distance2 = max(dot(away, away), 1e-12);
            to = away / sqrt(distance2);
            strength = 1.0 / distance2;
            float reach = lights[a + 10];
            if (reach > 0.0) {
                float part = distance2 / (reach * reach);
                strength *= clamp(1.0 - part * part, 0.0, 1.0);
            }
            if (lights[a] > 1.5) {
                float cone = clamp(dot(-to, axis) * lights[a + 11] + lights[a + 12], 0.0, 1.0);
                strength *= cone * cone;
            }
        }
        float facing = dot(n, to);
        if (facing > 0.0) total += strength * facing * vec3(lights[a + 1], lights[a + 2], lights[a + 3]);
    }
    return total;
}
#endif

void main() {
    int f;
    vec3 b;
    if (!found(f, b)) discard;
    int m = material[f];
    vec4 c = base_of(f, b);
#ifdef NORMAL
    c.rgb *= 0.625 + 0.375 * side_of(f) * dot(normal_of(f), vec3(0.3, 0.4, 0.87) / sqrt(1.0069));
#endif
#ifdef LIGHTS
    if (kinds[KINDS * m + UNLIT] == 0) c.rgb *= light_on(f, b, side_of(f));
#endif
    c.rgb += vec3(looks[LOOKS * m + 4], looks[LOOKS * m + 5], looks[LOOKS * m + 6]);
    float part = opaque == 1 ? 1.0 : clamp(c.a, 0.0, 1.0);
    drawn = vec4(part * vec3(encoded(c.r), encoded(c.g), encoded(c.b)), part);
}
"""

ALPHA = _MESH + _SURFACE + _SEEN + """
out float drawn;

void main() {
    int f;
    vec3 b;
    drawn = found(f, b) ? clamp(base_of(f, b).a, 0.0, 1.0) : 0.0;
}
"""

RESOLVE = """
uniform sampler2D sum;
uniform int samples;
uniform vec3 background;
out vec4 mean;

void main() {
    ivec2 at = ivec2(gl_FragCoord.xy) * samples;
    vec3 total = vec3(0.0);
    for (int j = 0; j < samples; ++j)
        for (int i = 0; i < samples; ++i) {
            vec4 c = texelFetch(sum, at + ivec2(i, j), 0);
            total += c.rgb + c.a * background;
        }
    mean = vec4(total / float(samples * samples), 1.0);
}
"""
