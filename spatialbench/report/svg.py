"""Elements of inline SVG: every attribute and text is escaped, numbers are written in one way."""

from __future__ import annotations

from markupsafe import Markup, escape

__all__ = ["num", "points", "tag", "text_of"]


def num(x: float) -> str:
    """A coordinate with two decimals at most, the same on every machine."""
    s = f"{x:.2f}".rstrip("0").rstrip(".")
    return "0" if s == "-0" else s


def tag(name: str, *children: Markup, **attributes: object) -> Markup:
    """One element. ``class_`` is ``class``, other underscores become hyphens, None leaves an attribute out."""
    parts = [Markup("<") + name]
    for key, v in attributes.items():
        if v is not None:
            key = key.rstrip("_").replace("_", "-") if key != "viewBox" else key
            parts.append(Markup(' {}="{}"').format(Markup(key), num(v) if isinstance(v, float) else v))
    return Markup("").join([*parts, Markup(">"), *children, Markup(f"</{name}>")])


def text_of(content: str, x: float, y: float, class_: str = "t", anchor: str = "start") -> Markup:
    """A ``<text>``; its size comes from the style sheet, so that narrow screens can enlarge it."""
    return tag("text", escape(content), x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def points(xy: object) -> str:
    """``x,y x,y`` of an [N,2] array or a sequence of pairs."""
    return " ".join(f"{num(float(x))},{num(float(y))}" for x, y in xy)  # type: ignore[attr-defined]
