"""The types that travel between the parts of the engine."""

from spatialbench.types.camera import Camera, Pose, level_pose, look_at_pose
from spatialbench.types.case import (
    Case,
    EditCase,
    EmbodiedCase,
    ExpandCase,
    SnapshotCase,
    VideoCase,
    load_any_case,
    load_case,
)
from spatialbench.types.frames import Frames, RenderSettings, to_uint8
from spatialbench.types.grid import PlanGrid
from spatialbench.types.measurement import Measurement, Status
from spatialbench.types.mesh import Light, Material, TriangleMesh
from spatialbench.types.metric import MetricSpec
from spatialbench.types.navmesh import NavMesh, NavMeshAttempt, NavMeshSettings
from spatialbench.types.placement import PlacedObject, PlacementSettings, PlannedTrial, Support, TrialResult
from spatialbench.types.protocol import Protocol, load_protocol, protocol_hash
from spatialbench.types.rays import AllHits, FirstHits, RayCaster
from spatialbench.types.scene import Decision, ImportReport, InputFile, Repair, Scene, SideCar
from spatialbench.types.splats import GaussianSplats
from spatialbench.types.world import CollisionMesh, FusionQuality, Gate, ScaleRecord, World

__all__ = [
    "AllHits",
    "Camera",
    "Case",
    "CollisionMesh",
    "Decision",
    "EditCase",
    "EmbodiedCase",
    "ExpandCase",
    "FirstHits",
    "Frames",
    "FusionQuality",
    "Gate",
    "GaussianSplats",
    "ImportReport",
    "InputFile",
    "Light",
    "Material",
    "Measurement",
    "MetricSpec",
    "NavMesh",
    "NavMeshAttempt",
    "NavMeshSettings",
    "PlacedObject",
    "PlacementSettings",
    "PlanGrid",
    "PlannedTrial",
    "Pose",
    "Protocol",
    "RayCaster",
    "RenderSettings",
    "Repair",
    "ScaleRecord",
    "Scene",
    "SideCar",
    "SnapshotCase",
    "Status",
    "Support",
    "TrialResult",
    "TriangleMesh",
    "VideoCase",
    "World",
    "level_pose",
    "load_any_case",
    "load_case",
    "load_protocol",
    "look_at_pose",
    "protocol_hash",
    "to_uint8",
]
