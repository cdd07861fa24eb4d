"""SVG files made safe to stand inside a page: no scripts, no outside links, no clashing ids."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from assay_tools.errors import ToolError
from assay_tools.strict_json import read_bytes

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
# What a plot needs; everything else is left out.
ELEMENTS = {
    "svg", "g", "defs", "clipPath", "path", "use", "text", "tspan", "rect", "line", "polyline",
    "polygon", "circle", "ellipse", "style", "image", "pattern", "linearGradient",
    "radialGradient", "stop", "marker", "symbol",
}  # fmt: skip
_REFERENCE = re.compile(r"url\(\s*['\"]?#([^)'\"]+)['\"]?\s*\)")
_OUTSIDE = re.compile(r"url\(\s*(?!['\"]?#)|@import|expression|javascript:", re.IGNORECASE)


def _local(tag: str) -> str:
    return tag.rsplit("}", 1)[-1]


def _clean_attributes(element: ET.Element, prefix: str) -> None:
    for key, value in list(element.attrib.items()):
        name = _local(key)
        if name.lower().startswith("on") or _OUTSIDE.search(value):
            del element.attrib[key]
        elif name == "href":
            inside = value.startswith("#")
            if inside:
                element.attrib[key] = f"#{prefix}{value[1:]}"
            elif not value.startswith("data:image/png;base64,"):
                del element.attrib[key]
        elif name == "id":
            element.attrib[key] = prefix + value
        else:
            element.attrib[key] = _REFERENCE.sub(rf"url(#{prefix}\1)", value)


def _clean(element: ET.Element, prefix: str) -> None:
    for child in list(element):
        known = isinstance(child.tag, str) and _local(child.tag) in ELEMENTS
        if not known or (_local(child.tag) == "style" and _OUTSIDE.search(child.text or "")):
            element.remove(child)
        else:
            _clean(child, prefix)
    _clean_attributes(element, prefix)


def inline(path: Path, alt: str) -> str:
    """The file as an `svg` element whose accessible name is `alt`."""
    try:
        root = ET.fromstring(read_bytes(path))
    except ET.ParseError as error:
        raise ToolError(f"{path}: not an SVG file: {error}") from None
    if _local(str(root.tag)) != "svg":
        raise ToolError(f"{path}: not an SVG file: the root is {_local(str(root.tag))}")
    _clean(root, f"{path.stem}-")
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    root.set("role", "img")
    root.set("aria-label", alt)
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return ET.tostring(root, encoding="unicode")
