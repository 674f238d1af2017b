"""Lists of cameras in the formats of the field, read into poses with OpenCV axes and written back."""

from spatialbench.scene.cameras.files import LIST_FORMATS, read_cameras, write_cameras
from spatialbench.scene.cameras.listed import CameraList, Intrinsics, ListedCamera
from spatialbench.scene.cameras.nerfstudio import in_capture_frame, in_training_frame, parse_dataparser

__all__ = ["LIST_FORMATS", "CameraList", "Intrinsics", "ListedCamera", "in_capture_frame", "in_training_frame",
           "parse_dataparser", "read_cameras", "write_cameras"]
