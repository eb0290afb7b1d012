"""Okabe and Ito's palette, in the order in which it is used. Light: nothing is drawn here."""

BLUE, ORANGE, GREEN, PINK, SKY, RED = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00",
)  # fmt: skip
