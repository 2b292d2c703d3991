"""Makes card payments: owners pay at home and on the web, and thieves use stolen cards."""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

COUNTRIES = np.array(["AT", "BE", "CH", "DE", "ES", "FR", "IT", "NL", "PL", "PT"])
CARDS = 3_000
RATE = 40.0  # payments per second
PROBED, ABROAD = 0.02, 0.02  # shares of cards; half of those probed are used abroad as well
PROBES = 4
IN_SHOP = 0.6  # share of an owner's payments
LATE = 0.01  # share of payments that are reported late, by up to 0.4 s


def make_payments(count: int, seed: int) -> pa.Table:
    """Make payments in the order in which they are reported, nearly that of their times."""
    rng = np.random.default_rng(seed)
    duration = count / RATE
    home = rng.integers(0, len(COUNTRIES), CARDS)
    thieves = rng.permutation(CARDS)
    probed = thieves[: int(PROBED * CARDS)]
    abroad = thieves[len(probed) // 2 : len(probed) // 2 + int(ABROAD * CARDS)]

    begun = rng.uniform(0, 0.8 * duration, len(probed))
    probes = begun[:, None] + np.cumsum(rng.uniform(5, 25, (len(probed), PROBES + 1)), axis=1)
    small = rng.uniform(0.5, 1.99, (len(probed), PROBES))
    large = rng.uniform(600, 2_000, (len(probed), 1))

    left = np.concatenate([begun, rng.uniform(0, 0.8 * duration, len(abroad))])[-len(abroad) :]
    arrived = left + rng.uniform(30, 170, len(abroad))
    foreign = (home[abroad] + rng.integers(1, len(COUNTRIES), len(abroad))) % len(COUNTRIES)

    stolen = probes.size + 2 * len(abroad)
    honest = count - stolen
    if honest < 0:
        raise SystemExit(f"--events must be at least {stolen:,}")
    card = rng.integers(0, CARDS, honest)
    time = np.concatenate([rng.uniform(0, duration, honest), probes.ravel(), left, arrived])
    amount = np.concatenate(
        [
            rng.lognormal(np.log(25), 1.2, honest),
            np.hstack([small, large]).ravel(),
            rng.lognormal(np.log(40), 0.5, 2 * len(abroad)),
        ]
    )
    place = np.concatenate(
        [home[card], np.repeat(home[probed], PROBES + 1), home[abroad], foreign]
    )
    in_shop = np.concatenate(
        [
            rng.random(honest) < IN_SHOP,
            np.zeros(probes.size, bool),
            np.ones(2 * len(abroad), bool),
        ]
    )
    cards = np.concatenate([card, np.repeat(probed, PROBES + 1), abroad, abroad])

    delay = np.where(rng.random(count) < LATE, rng.uniform(0, 0.4, count), 0.0)
    order = np.argsort(time + delay, kind="stable")
    return pa.table(
        {
            "payment": np.arange(count),
            "time_ms": (time[order] * 1_000).astype(np.int64),
            "card": cards[order],
            "country": COUNTRIES[place[order]],
            "in_shop": in_shop[order],
            "amount": amount[order].round(2),
        }
    )


def write(folder: Path, count: int, seed: int) -> Path:
    """Write the payments where the application file looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "payments.csv"
    pyarrow.csv.write_csv(make_payments(count, seed), path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the same one, the same events")
    parser.add_argument("--out", type=Path, default=Path("data"), help="the folder to write to")
    given = parser.parse_args()
    print(f"{given.events:,} events -> {write(given.out, given.events, given.seed)}")
