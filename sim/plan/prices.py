"""What a GPU hour costs, as a user writes it."""

from collections.abc import Iterable

from sim import catalogue
from sim.errors import UserError

Prices = dict[str, float]  # by the name of the GPU; "" for any


def parse_prices(text: str | None) -> Prices:
    """Of `3`, or by names of the catalogue, `h100-80gb=3,a100-80gb=1.5`; None: none are known.

    Raises UserError for a price that is none, and a GPU that the catalogue has not.
    """
    prices: Prices = {}
    for part in [] if text is None else text.split(","):
        name, _, number = (word.strip() for word in part.rpartition("="))
        if name in prices:
            raise UserError(f"--gpu-price: got {text!r}, expected one price of each GPU")
        prices[name] = _price(part, number)
        _refuse_unknown(name)
    return prices


def _price(part: str, number: str) -> float:
    try:
        price = float(number)
    except ValueError:
        price = -1.0
    if not 0 < price < 1e9:
        raise UserError(f"--gpu-price: got {part!r}, expected such as 3 or h100-80gb=3")
    return price


def _refuse_unknown(name: str) -> None:
    try:
        if name:
            catalogue.load_hardware(name)
    except UserError as error:
        raise UserError(f"--gpu-price: {error}") from None


def refuse_unpriced(prices: Prices, hardware: Iterable[str]) -> None:
    """Raise UserError where there are prices, but not of each of these GPUs."""
    for name in hardware:
        if prices and price_of(prices, name) is None:
            raise UserError(
                f"--gpu-price: got none of {name}, expected one of each GPU that is compared"
            )


def price_of(prices: Prices, hardware: str) -> float | None:
    """Of an hour of this GPU; None where it is not known."""
    return prices.get(hardware, prices.get(""))
