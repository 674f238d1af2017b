"""The one writer of films: MP4 that browsers play, H.264 where PyAV is installed, else VP9 by OpenCV.

``SPATIALBENCH_FILM`` forces one by name (``pyav`` or ``opencv``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from spatialbench.errors import BackendUnavailableError, ResultError, UsageError

__all__ = ["FILM_VARIABLE", "Film", "film_backend", "write_film"]

FILM_VARIABLE = "SPATIALBENCH_FILM"
"""Environment variable that forces what writes films."""
_QUALITY = "18"
"""Constant rate factor of x264: differences can hardly be seen."""
_BT709 = 1
_MOST = 8192
"""Pixels of a side; encoders and players take no more."""

Writer = Literal["pyav", "opencv"]


def film_backend() -> tuple[Writer, str]:
    """What writes films here, and its name, version and codec in words.

    Raises
    ------
    BackendUnavailableError : neither can, or the one that was forced cannot.
    UsageError : the variable names neither.
    """
    forced = os.environ.get(FILM_VARIABLE, "")
    if forced not in ("", "pyav", "opencv"):
        raise UsageError(f"no writer of films '{forced[:40]}'", where=FILM_VARIABLE, todo="Choose pyav or opencv")
    reasons = []
    if forced in ("", "pyav"):
        try:
            import av

            if "libx264" in av.codecs_available:
                return "pyav", f"PyAV {av.__version__} (H.264 by x264)"
            reasons.append("PyAV has no x264: install one with it (pip install av)")
        except ImportError as error:
            reasons.append(f"PyAV: {error} (pip install av)")
    if forced in ("", "opencv"):
        try:
            import cv2

            if cv2.videoio_registry.hasBackend(cv2.CAP_FFMPEG):
                return "opencv", f"OpenCV {cv2.__version__} (VP9)"
            reasons.append("OpenCV was built without FFmpeg")
        except (ImportError, AttributeError) as error:
            reasons.append(f"OpenCV: {error}")
    raise BackendUnavailableError(f"no films can be written ({'; '.join(reasons)})", where="film",
                                  todo="Install PyAV with: pip install av")


class Film:
    """An MP4 file that grows frame by frame; it appears under its name when it is closed without an error.

    Parameters
    ----------
    path : MP4.
    rate : frames per second.

    Raises
    ------
    BackendUnavailableError : nothing here writes films.
    UsageError : a rate that is not between 0.1 and 240.
    """

    def __init__(self, path: Path, rate: float) -> None:
        if not 0.1 <= rate <= 240:
            raise UsageError(f"a film of {rate:g} frames per second is none", where="film",
                             todo="Ask for 0.1 to 240 frames per second")
        self.path = path
        self.rate = rate
        self.frames = 0
        self.size: tuple[int, int] | None = None
        self.kind, self.backend = film_backend()
        self._part = path.with_name(f".{path.stem}.{os.getpid()}.part.mp4")
        self._file: Any = None
        self._stream: Any = None

    def __enter__(self) -> Film:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close(keep=kind is None)

    def add(self, picture: NDArray[np.uint8]) -> None:
        """One frame [H,W,3] uint8; a last row or column is repeated where a side is odd, as both codecs want.

        Raises
        ------
        ValueError : not such a picture, or of another size than the first. UsageError : larger than 8192 pixels.
        ResultError : the file cannot be written.
        """
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise ValueError(f"a frame is [H,W,3] uint8, got {picture.shape} {picture.dtype}")
        height, width = picture.shape[:2]
        if self.size not in (None, (width, height)):
            raise ValueError(f"a frame of {width}x{height} in a film of {self.size}")
        if max(width, height) > _MOST:
            raise UsageError(f"a film of {width}x{height} pixels", where="film", todo=f"At most {_MOST} each way")
        even = np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        if self.size is None:
            self.size = (width, height)
            self._open(even.shape[1], even.shape[0])
        try:
            if self.kind == "pyav":
                import av

                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
                self._file.mux(self._stream.encode(frame.reformat(format="yuv420p", dst_colorspace="ITU709")))
            else:
                self._file.write(np.ascontiguousarray(even[..., ::-1]))
        except OSError as error:
            raise self._refused(error) from None
        self.frames += 1

    def close(self, keep: bool = True) -> None:
        """Finish the file, or remove it; a film without frames is none.

        Raises
        ------
        ResultError : the file cannot be written.
        """
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            if self.kind == "pyav":
                if keep:
                    file.mux(self._stream.encode())
                file.close()
            else:
                file.release()
            if keep:
                if not self._part.is_file() or self._part.stat().st_size == 0:
                    raise OSError(0, "nothing was written")
                os.replace(self._part, self.path)
        except OSError as error:
            raise self._refused(error) from None
        finally:
            self._part.unlink(missing_ok=True)

    def _open(self, width: int, height: int) -> None:
        from fractions import Fraction

        try:
            if self.kind == "pyav":
                import av

                # One thread: the stream is then the same on every machine. The index comes first, for browsers.
                self._file = av.open(str(self._part), "w", format="mp4", options={"movflags": "faststart"})
                rate = Fraction(str(self.rate)).limit_denominator(1001)
                self._stream = self._file.add_stream("libx264", rate=rate, options={"crf": _QUALITY, "threads": "1"})
                self._stream.width, self._stream.height, self._stream.pix_fmt = width, height, "yuv420p"
                c = self._stream.codec_context
                c.colorspace = c.color_primaries = c.color_trc = _BT709  # said, or players guess by the size
                return
        except OSError as error:
            raise self._refused(error) from None
        import cv2

        self._file = cv2.VideoWriter(str(self._part), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"vp09"), self.rate,
                                     (width, height))
        if not self._file.isOpened():
            self._file = None
            self._part.unlink(missing_ok=True)
            raise BackendUnavailableError(f"{self.backend} cannot write {width}x{height} pixels", where=str(self.path),
                                          todo="Install PyAV with: pip install av")

    def _refused(self, error: OSError) -> ResultError:
        return ResultError(f"cannot be written: {error.strerror or error}", where=str(self.path),
                           todo="Free some space or choose another folder with -o")


def write_film(path: Path, frames: Iterable[NDArray[np.uint8]], rate: float) -> str:
    """Write a whole film, replacing the file; name, version and codec of what wrote it.

    Parameters
    ----------
    frames : [H,W,3] uint8 each, of one size.
    rate : frames per second.

    Raises
    ------
    BackendUnavailableError, UsageError, ResultError, ValueError : as ``Film``.
    """
    with Film(path, rate) as film:
        for picture in frames:
            film.add(picture)
    return film.backend
