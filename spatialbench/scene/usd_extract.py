"""The part of reading USD that runs in a process of its own: from a stage to plain arrays.

USD's own reader allocates, waits and crashes as a broken file tells it to, so it is kept apart; see ``scene.usd``.
Run as ``python usd_extract.py FILE FOLDER OUT BYTES``: meshes go to ``OUT/mesh_N.npz``, all else to
``OUT/stage.json``. Only files in FOLDER are opened, and no more than BYTES of memory are taken.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Refused", "extract"]

_SOLIDS = ("Cube", "Sphere", "Cylinder", "Cylinder_1", "Cone", "Capsule", "Capsule_1", "Plane", "NurbsPatch", "TetMesh",
           "PointInstancer", "Volume")
_NO_FACES = ("BasisCurves", "NurbsCurves", "HermiteCurves", "Points")
_MAX_LAYERS = 1000
_MAX_LIGHTS = 1000
"""That are described; the rest is counted."""
_MAX_CORNERS = 400_000_000


class Refused(Exception):
    """Class of the error, what is wrong, where in the stage, what to do."""


def extract(file: Path, folder: Path, out: Path) -> dict[str, Any]:
    """Open the stage, check that it needs nothing outside ``folder``, write its meshes."""
    from pxr import Sdf, Usd, UsdGeom, UsdLux  # type: ignore[import-not-found, import-untyped, unused-ignore]

    layers = _check_layers(Sdf, file, folder)
    stage = Usd.Stage.Open(str(file))
    if stage is None:
        raise Refused("CorruptInputError", "is a USD scene that cannot be opened", "", "Download or export it again")
    errors = [str(e) for e in stage.GetCompositionErrors()]
    said: dict[str, Any] = {
        "up": str(UsdGeom.GetStageUpAxis(stage)) if stage.HasAuthoredMetadata("upAxis") else None,
        "unit": float(UsdGeom.GetStageMetersPerUnit(stage)) if UsdGeom.StageHasAuthoredMetersPerUnit(stage) else None,
        "errors": errors[:8], "skipped": {}, "meshes": [], "layers": layers, "lights": [], "n_lights": 0}
    cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime())
    corners = 0
    for prim in Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies(Usd.PrimDefaultPredicate)):
        kind = str(prim.GetTypeName())
        if kind.endswith("Light") or prim.HasAPI(UsdLux.LightAPI):
            _light(prim, kind, cache, said)
        if kind.startswith("ParticleField"):
            raise Refused("UnsupportedFormatError", f"holds 3D Gaussian splats ({kind}), which are not read from USD",
                          str(prim.GetPath()), "Export them as .ply or .spz")
        if not prim.IsA(UsdGeom.Imageable) or kind not in ("Mesh", *_SOLIDS, *_NO_FACES):
            continue
        if not _shown(prim):
            _count(said, "hidden or for guides")
        elif kind in _NO_FACES:
            _count(said, "curves or points")
        elif kind in _SOLIDS:
            raise Refused("UnsupportedFormatError", f"holds a {kind}, which is not read", str(prim.GetPath()),
                          "Export it with everything turned into meshes, or as .glb")
        else:
            matrix = np.array(cache.GetLocalToWorldTransform(prim), dtype=np.float64).T
            arrays, entry = _mesh(prim, stage, said)
            corners += len(arrays.get("indices", ()))
            if corners > _MAX_CORNERS:
                raise Refused("UnsupportedFormatError", "holds more faces than are read", "", "Simplify the world")
            np.savez(out / f"mesh_{len(said['meshes'])}.npz", matrix=matrix, **arrays)  # type: ignore[arg-type, unused-ignore]
            said["meshes"].append(entry)
    return said


def _shown(prim: Any) -> bool:
    from pxr import Usd, UsdGeom

    image = UsdGeom.Imageable(prim)
    return image.ComputeVisibility(Usd.TimeCode.EarliestTime()) != "invisible" and \
        str(image.ComputePurpose()) in ("default", "render")


def _light(prim: Any, kind: str, cache: Any, said: dict[str, Any]) -> None:
    """Add a light that is shown: its place and what UsdLux says of it, as it stands in the stage."""
    from pxr import Usd, UsdLux

    said["n_lights"] += _shown(prim)
    if not _shown(prim) or said["n_lights"] > _MAX_LIGHTS:
        return

    def get(name: str, otherwise: Any) -> Any:
        value = prim.GetAttribute(name).Get(Usd.TimeCode.EarliestTime()) if prim.HasAttribute(name) else None
        return otherwise if value is None else value

    light: dict[str, Any] = {"path": str(prim.GetPath()), "name": prim.GetName(), "kind": kind}
    for name in ("intensity", "exposure", "diffuse", "radius", "width", "height", "length", "angle"):
        light[name] = float(get(f"inputs:{name}", name in ("intensity", "diffuse")))
    light["matrix"] = np.array(cache.GetLocalToWorldTransform(prim), dtype=np.float64).T.tolist()
    light["color"] = [float(c) for c in get("inputs:color", (1, 1, 1))]
    warm = get("inputs:colorTemperature", 6500.0) if get("inputs:enableColorTemperature", False) else None
    light["body"] = [1.0] * 3 if warm is None else [float(c) for c in UsdLux.BlackbodyTemperatureAsRgb(warm)]
    cone = "inputs:shaping:cone:angle"
    light |= {"normalize": bool(get("inputs:normalize", False)), "shaped": prim.HasAttribute(cone),
              "cone": float(get(cone, 90.0)), "softness": float(get("inputs:shaping:cone:softness", 0.0))}
    asset, profile, dome = get("inputs:texture:file", None), get("inputs:shaping:ies:file", None), "Dome" in kind
    file = str(asset.path) if asset else ""
    light |= {"file": file if dome else "", "resolved": str(asset.resolvedPath) if file else "",
              "unused": {"texture": bool(file) and not dome, "IES profile": bool(profile and profile.path),
                         "focus": float(get("inputs:shaping:focus", 0.0)) > 0}}
    said["lights"].append(light)


def _count(said: dict[str, Any], what: str) -> None:
    said["skipped"][what] = said["skipped"].get(what, 0) + 1


def _check_layers(Sdf: Any, file: Path, folder: Path) -> list[str]:
    """Names of the files that the stage is made of beside ``file``.

    Sublayers, references and payloads are followed; each must be a relative name that stays in the folder.
    """
    waiting, seen = [file], {file}
    while waiting:
        path = waiting.pop()
        layer = Sdf.Layer.FindOrOpen(str(path))
        if layer is None:
            raise Refused("CorruptInputError", "is a USD scene that cannot be opened", path.name,
                          "Download or export it again")
        for name in layer.GetCompositionAssetDependencies():
            parts = name.replace("\\", "/").split("/")
            if not name or name.startswith(("/", "\\")) or ":" in name or "[" in name or "~" in parts[0]:
                raise Refused("CorruptInputError", f"refers to '{name[:80]}', which is no relative name", path.name,
                              "Put the file beside the world and refer to it by a relative name")
            if path.suffix.lower() == ".usdz":
                if ".." in parts:
                    raise Refused("CorruptInputError", f"refers to '{name[:80]}', which is outside the archive",
                                  path.name, "Export it again")
                continue
            target = (path.parent / name).resolve()
            if not target.is_relative_to(folder):
                raise Refused("CorruptInputError", f"refers to '{name[:80]}', which is outside its folder", path.name,
                              "Put the file into the world's folder")
            if not target.is_file():
                raise Refused("MissingInputError", f"the file '{name[:80]}' is not there", path.name,
                              "Copy it beside the world with the same relative path")
            if target not in seen:
                seen.add(target)
                waiting.append(target)
        if len(seen) > _MAX_LAYERS:
            raise Refused("UnsupportedFormatError", f"is made of more than {_MAX_LAYERS} files", "", "Flatten it")
    return sorted(p.relative_to(folder).as_posix() for p in seen - {file})


def _mesh(prim: Any, stage: Any, said: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    from pxr import Usd, UsdGeom, UsdShade

    mesh, now = UsdGeom.Mesh(prim), Usd.TimeCode.EarliestTime()
    arrays: dict[str, np.ndarray] = {
        "points": _array(mesh.GetPointsAttr().Get(now), np.float64, 3),
        "counts": _array(mesh.GetFaceVertexCountsAttr().Get(now), np.int64, 0),
        "indices": _array(mesh.GetFaceVertexIndicesAttr().Get(now), np.int64, 0),
        "holes": _array(mesh.GetHoleIndicesAttr().Get(now), np.int64, 0)}
    entry: dict[str, Any] = {"path": str(prim.GetPath()), "name": prim.GetName(), "materials": [],
                             "left": mesh.GetOrientationAttr().Get(now) == "leftHanded",
                             "double": bool(mesh.GetDoubleSidedAttr().Get(now)),
                             "skinned": prim.HasAPI("SkelBindingAPI"),
                             "smooth": str(mesh.GetSubdivisionSchemeAttr().Get(now)) != "none"}
    primvars = UsdGeom.PrimvarsAPI(prim)
    for key, name, width in (("color", "displayColor", 3), ("opacity", "displayOpacity", 0)):
        _primvar(primvars, name, key, width, arrays, entry)
    api = UsdShade.MaterialBindingAPI(prim)
    whole = api.ComputeBoundMaterial()[0]
    entry["materials"].append(_material(whole))
    faces = np.full(len(arrays["counts"]), 0, np.int64)
    for subset in api.GetMaterialBindSubsets():
        own = UsdShade.MaterialBindingAPI(subset.GetPrim()).ComputeBoundMaterial()[0]
        index = _array(subset.GetIndicesAttr().Get(now), np.int64, 0)
        index = index[(index >= 0) & (index < len(faces))]
        faces[index] = len(entry["materials"])
        entry["materials"].append(_material(own))
    arrays["material"] = faces
    for k, name in enumerate(sorted({m["uv"] for m in entry["materials"] if m and m.get("uv")})):
        _primvar(primvars, name, f"uv{k}", 2, arrays, entry)
        entry.setdefault("sets", {})[name] = f"uv{k}"
    return arrays, entry


def _primvar(primvars: Any, name: str, key: str, width: int, arrays: dict[str, np.ndarray], entry: dict[str, Any]
             ) -> None:
    from pxr import Usd

    var = primvars.FindPrimvarWithInheritance(name)
    if not var or not var.HasValue():
        return
    values = var.ComputeFlattened(Usd.TimeCode.EarliestTime())
    if values is None:
        return
    arrays[key] = _array(values, np.float32, width)
    entry[f"{key}_per"] = str(var.GetInterpolation())


def _array(values: Any, kind: Any, width: int) -> np.ndarray:
    if values is None:
        return np.zeros((0, width) if width else 0, kind)
    out = np.asarray(values, dtype=kind)
    return out.reshape(-1, width) if width else out.reshape(-1)


def _material(material: Any) -> dict[str, Any] | None:
    """What is read of a material: base colour or its texture, opacity, emission; None where there is none."""
    from pxr import UsdShade

    if not material:
        return None
    said: dict[str, Any] = {"name": material.GetPrim().GetName(), "color": [0.18, 0.18, 0.18], "opacity": 1.0,
                            "emissive": [0.0, 0.0, 0.0], "threshold": 0.0}
    shader = material.ComputeSurfaceSource()[0]
    if not shader or shader.GetIdAttr().Get() != "UsdPreviewSurface":
        said["unread"] = str(shader.GetIdAttr().Get()) if shader else "no surface"
        return said
    for key, name in (("color", "diffuseColor"), ("opacity", "opacity"), ("emissive", "emissiveColor"),
                      ("threshold", "opacityThreshold")):
        port = shader.GetInput(name)
        if not port:
            continue
        sources = port.GetConnectedSources()[0]
        if sources:
            texture = UsdShade.Shader(sources[0].source.GetPrim())
            if key == "color":
                _texture(texture, said)
            elif not (key == "opacity" and said.get("texture_prim") == str(texture.GetPath())):
                said.setdefault("maps", []).append(name)
        elif port.Get() is not None:
            value = port.Get()
            said[key] = [float(v) for v in value] if key in ("color", "emissive") else float(value)
    return said


def _texture(texture: Any, said: dict[str, Any]) -> None:
    if texture.GetIdAttr().Get() != "UsdUVTexture" or not texture.GetInput("file"):
        said.setdefault("maps", []).append("diffuseColor")
        return
    asset = texture.GetInput("file").Get()
    said |= {"texture_prim": str(texture.GetPath()), "color": [1.0, 1.0, 1.0], "uv": "st",
             "file": str(asset.path) if asset else "", "resolved": str(asset.resolvedPath) if asset else ""}
    for key in ("wrapS", "wrapT"):
        port = texture.GetInput(key)
        said[key] = str(port.Get()) if port and port.Get() else "useMetadata"
    reader = texture.GetInput("st")
    for _ in range(4):
        sources = reader.GetConnectedSources()[0] if reader else []
        if not sources:
            return
        node = sources[0].source
        prim = node.GetPrim().GetAttribute("info:id").Get()
        if prim == "UsdTransform2d":
            said["transform"] = {k: _plain(node.GetInput(k).Get() if node.GetInput(k) else None)
                                 for k in ("scale", "rotation", "translation")}
            reader = node.GetInput("in")
            continue
        name = node.GetInput("varname")
        value = name.GetAttr().Get() if name else None
        links = name.GetConnectedSources()[0] if name else []
        if links:
            value = links[0].source.GetPrim().GetAttribute(f"inputs:{links[0].sourceName}").Get()
        said["uv"] = str(value) if value else "st"
        return


def _plain(value: Any) -> Any:
    if value is None:
        return None
    return float(value) if isinstance(value, (int, float)) else [float(v) for v in value]


def main(argv: list[str]) -> int:
    """Command line of the process; what went wrong is in ``stage.json`` too."""
    file, folder, out = (Path(a) for a in argv[:3])
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(argv[3]), int(argv[3])))
    except (ImportError, ValueError, OSError):
        pass  # not everywhere; the time is limited all the same
    try:
        said = extract(file, folder, out)
    except Refused as e:
        said = {"error": list(e.args)}
    except Exception as e:  # USD raises its own classes, and says little
        words = " ".join(str(e).split())
        quoted = re.search(r" : '(.*)'", words)  # after the place in USD's own source
        said = {"error": ["CorruptInputError", "is a USD scene that cannot be read ("
                                               f"{(quoted[1] if quoted else words)[:160] or type(e).__name__})", "",
                          "Download or export it again"]}
    (out / "stage.json").write_text(json.dumps(said), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
