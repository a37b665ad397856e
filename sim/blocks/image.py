"""Pictures as pixels: PNG and GIF."""

from functools import cache
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from sim.blocks.marks import Box, Picture, Words, hatch_lines

_ANCHORS = {"start": "lm", "middle": "mm", "end": "rm"}


@cache
def font(size: float, *, is_bold: bool) -> ImageFont.FreeTypeFont:
    """DejaVu Sans, which comes with matplotlib. size: in pixels."""
    name = "DejaVuSans-Bold.ttf" if is_bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)


@cache
def text_width(text: str, size: float, *, is_bold: bool = False) -> float:
    """How wide a text is, in pixels."""
    return font(size, is_bold=is_bold).getlength(text)


def to_image(picture: Picture, scale: int) -> Image.Image:
    """A picture, so many pixels for each of its own."""
    size = (round(picture.width * scale), round(picture.height * scale))
    image = Image.new("RGB", size, picture.paper)
    draw = ImageDraw.Draw(image)
    for mark in picture.marks:
        if isinstance(mark, Box):
            _draw_box(draw, mark, scale)
        else:
            _draw_words(draw, mark, scale)
    return image


def _draw_box(draw: ImageDraw.ImageDraw, box: Box, scale: int) -> None:
    left, top = round(box.x * scale), round(box.y * scale)
    right = round((box.x + box.width) * scale) - 1
    bottom = round((box.y + box.height) * scale) - 1
    if right < left or bottom < top:
        return
    draw.rectangle((left, top, right, bottom), fill=box.fill)
    if box.hatch:
        for segment in hatch_lines(box):
            width = scale if box.hatch != "dots" else 2 * scale
            draw.line([value * scale for value in segment], fill=box.hatch_ink, width=width)
    if box.stroke:
        draw.rectangle((left, top, right, bottom), outline=box.stroke, width=scale)


def _draw_words(draw: ImageDraw.ImageDraw, words: Words, scale: int) -> None:
    draw.text(
        (words.x * scale, words.y * scale),
        words.text,
        fill=words.ink,
        font=font(words.size * scale, is_bold=words.is_bold),
        anchor=_ANCHORS[words.anchor],
        stroke_width=2 * scale if words.halo else 0,
        stroke_fill=words.halo,
    )


def save_png(picture: Picture, path: Path) -> None:
    """Write a picture as PNG, twice as large, for sharp text."""
    image = to_image(picture, 2).quantize(256, Image.Quantize.MEDIANCUT)
    image.save(path, format="PNG", optimize=True)


def save_gif(pictures: list[Picture], path: Path, frame_ms: int) -> None:
    """Write pictures of one size as an endless film, the last one longer than the others."""
    images = [to_image(picture, 1).quantize(128, Image.Quantize.MEDIANCUT) for picture in pictures]
    images[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=[frame_ms] * (len(images) - 1) + [2000],
        loop=0,
    )
