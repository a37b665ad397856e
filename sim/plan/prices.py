"""What a GPU hour costs, as a user writes it."""

from sim import catalogue
from sim.errors import UserError

Prices = dict[str, float]  # by the name of the GPU; "" for any


def parse_prices(text: str | None) -> Prices:
    """Of `3`, or by names of the catalogue, `h100-80gb=3,a100-80gb=1.5`; None: none are known.

    Raises UserError for a price that is none, and a GPU that the catalogue has not.
    """
    prices: Prices = {}
    for part in text.split(",") if text else ():
        name, _, number = part.rpartition("=")
        if name:
            catalogue.load_hardware(name.strip())
        try:
            price = float(number)
        except ValueError:
            price = -1.0
        if not 0 <= price < 1e9:
            raise UserError(f"--gpu-price: got {part!r}, expected such as 3 or h100-80gb=3")
        prices[name.strip()] = price
    return prices


def price_of(prices: Prices, hardware: str) -> float | None:
    """Of an hour of this GPU; None where it is not known."""
    return prices.get(hardware, prices.get(""))
