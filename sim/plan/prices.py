"""What a GPU hour costs, as a user writes it."""

from sim.errors import UserError


def price_of(text: str | None, hardware: str) -> float | None:
    """Of a GPU hour: `3`, or by its name in the catalogue, `h100-80gb=3,a100-80gb=1.5`."""
    if text is None:
        return None
    prices = dict(part.partition("=")[::2] for part in text.split(",") if "=" in part)
    word = prices.get(hardware) if prices else text
    if word is None:
        return None
    try:
        price = float(word)
    except ValueError:
        price = -1.0
    if not 0 <= price < 1e9:
        raise UserError(f"--gpu-price: got {text!r}, expected such as 3 or {hardware}=3")
    return price
