"""The ring on a clock: a simulated device a rank, a slow link, and the simulator beside them."""
