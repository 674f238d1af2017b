"""The parts of a glTF 2.0 document that are read here, as strict models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Accessor", "BufferView", "DracoStream", "Gltf", "Image", "Instancing", "MaterialDef", "MeshoptView", "Node",
           "Primitive", "Skin", "TextureInfo", "TextureTransform"]

Index = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Vec2 = Annotated[list[Number], Field(min_length=2, max_length=2)]
Vec3 = Annotated[list[Number], Field(min_length=3, max_length=3)]
Vec4 = Annotated[list[Number], Field(min_length=4, max_length=4)]
Extensions = Annotated[dict[str, Any], Field(default_factory=dict)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: Any = None
    extensions: Extensions


class Asset(BaseModel):
    """Who wrote the file, and for which version."""

    version: str
    minVersion: str | None = None
    generator: Any = None


class Buffer(_Part):
    """Bytes: the GLB's own, a data URI or a file."""

    byteLength: Index
    uri: str | None = None


class BufferView(_Part):
    """A range of a buffer."""

    buffer: Index
    byteOffset: Index = 0
    byteLength: Index
    byteStride: Annotated[int, Field(ge=1, le=65536)] | None = None


class MeshoptView(BaseModel):
    """``EXT_meshopt_compression`` of a buffer view."""

    buffer: Index
    byteOffset: Index = 0
    byteLength: Index
    byteStride: Annotated[int, Field(ge=1, le=256)]
    count: Index
    mode: Literal["ATTRIBUTES", "TRIANGLES", "INDICES"]
    filter: Literal["NONE", "OCTAHEDRAL", "QUATERNION", "EXPONENTIAL", "COLOR"] = "NONE"


class SparseIndices(_Part):
    """Which elements are replaced."""

    bufferView: Index
    byteOffset: Index = 0
    componentType: int


class SparseValues(_Part):
    """What they are replaced by."""

    bufferView: Index
    byteOffset: Index = 0


class Sparse(_Part):
    """Elements that differ from the rest of an accessor."""

    count: Index
    indices: SparseIndices
    values: SparseValues


class Accessor(_Part):
    """A typed view into a buffer view."""

    bufferView: Index | None = None
    byteOffset: Index = 0
    componentType: int
    normalized: bool = False
    count: Index
    type: str
    min: Any = None
    max: Any = None
    sparse: Sparse | None = None


class Primitive(_Part):
    """Triangles, lines or points of one material."""

    attributes: dict[str, Index]
    indices: Index | None = None
    material: Index | None = None
    mode: Annotated[int, Field(ge=0, le=6)] = 4
    targets: list[dict[str, Index]] | None = None


class DracoStream(BaseModel):
    """``KHR_draco_mesh_compression``: the stream, and the ids of attributes in it."""

    bufferView: Index
    attributes: dict[str, Index]


class Mesh(_Part):
    """A list of primitives."""

    primitives: list[Primitive]
    weights: list[Number] | None = None


class Node(_Part):
    """A place in the scene graph."""

    children: list[Index] = Field(default_factory=list)
    mesh: Index | None = None
    camera: Index | None = None
    skin: Index | None = None
    weights: list[Number] | None = None
    matrix: Annotated[list[Number], Field(min_length=16, max_length=16)] | None = None
    translation: Vec3 | None = None
    rotation: Vec4 | None = None
    scale: Vec3 | None = None


class Instancing(BaseModel):
    """``EXT_mesh_gpu_instancing``: where copies of the node's mesh stand."""

    attributes: dict[str, Index]


class Skin(_Part):
    """Joints, and what takes vertices to each at bind time."""

    joints: list[Index]
    inverseBindMatrices: Index | None = None


class SceneDef(_Part):
    """Root nodes of one scene."""

    nodes: list[Index] = Field(default_factory=list)


class TextureInfo(_Part):
    """Which texture, and by which set of coordinates."""

    index: Index
    texCoord: Index = 0


class TextureTransform(BaseModel):
    """``KHR_texture_transform``: scale, then rotate, then shift."""

    offset: Vec2 = Field(default_factory=lambda: [0.0, 0.0])
    rotation: Number = 0.0
    scale: Vec2 = Field(default_factory=lambda: [1.0, 1.0])
    texCoord: Index | None = None


class Pbr(_Part):
    """Metallic-roughness: only the base colour is read."""

    baseColorFactor: Vec4 = Field(default_factory=lambda: [1.0] * 4)
    baseColorTexture: TextureInfo | None = None


class SpecGloss(BaseModel):
    """``KHR_materials_pbrSpecularGlossiness``: only the diffuse colour is read."""

    diffuseFactor: Vec4 = Field(default_factory=lambda: [1.0] * 4)
    diffuseTexture: TextureInfo | None = None


class MaterialDef(_Part):
    """A material."""

    pbrMetallicRoughness: Pbr | None = None
    emissiveFactor: Vec3 = Field(default_factory=lambda: [0.0] * 3)
    emissiveTexture: Any = None
    alphaMode: Literal["OPAQUE", "MASK", "BLEND"] = "OPAQUE"
    alphaCutoff: Number = 0.5
    doubleSided: bool = False


class Texture(_Part):
    """An image with a sampler."""

    sampler: Index | None = None
    source: Index | None = None


class Image(_Part):
    """Encoded pixels in a file, a data URI or a buffer view."""

    uri: str | None = None
    bufferView: Index | None = None
    mimeType: Any = None


class Sampler(_Part):
    """Filter and wrap modes (OpenGL's numbers)."""

    magFilter: int | None = None
    wrapS: int = 10497
    wrapT: int = 10497


class Gltf(BaseModel):
    """The document."""

    model_config = ConfigDict(extra="ignore")

    asset: Asset
    scene: Index | None = None
    scenes: list[SceneDef] = Field(default_factory=list)
    nodes: list[Node] = Field(default_factory=list)
    meshes: list[Mesh] = Field(default_factory=list)
    accessors: list[Accessor] = Field(default_factory=list)
    bufferViews: list[BufferView] = Field(default_factory=list)
    buffers: list[Buffer] = Field(default_factory=list)
    materials: list[MaterialDef] = Field(default_factory=list)
    textures: list[Texture] = Field(default_factory=list)
    images: list[Image] = Field(default_factory=list)
    samplers: list[Sampler] = Field(default_factory=list)
    skins: list[Skin] = Field(default_factory=list)
    cameras: list[Any] = Field(default_factory=list)
    extensionsUsed: list[str] = Field(default_factory=list)
    extensionsRequired: list[str] = Field(default_factory=list)
    extensions: Extensions
