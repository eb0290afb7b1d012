"""Other right ways to solve the exercises of notebook 06, which must pass."""

RIGHT = {
    "state from a table": ("state_bytes_per_gpu", """
        def state_bytes_per_gpu(parameters, dp, pp, tp, zero):
            shared = (0, 12, 14, 16)[zero]
            return parameters * ((16 - shared) * dp + shared) / (dp * pp * tp)
        """),
    "state part by part": ("state_bytes_per_gpu", """
        def state_bytes_per_gpu(parameters, dp, pp, tp, zero):
            total = 0
            for size, since in ((2, 3), (2, 2), (4, 1), (4, 1), (4, 1)):
                total += size * parameters / pp / tp / (dp if zero >= since else 1)
            return total
        """),
    "state as a fraction": ("state_bytes_per_gpu", """
        from fractions import Fraction

        def state_bytes_per_gpu(parameters, dp, pp, tp, zero):
            own = Fraction(parameters) / (pp * tp)
            held = {0: 16, 1: 4 + Fraction(12, dp), 2: 2 + Fraction(14, dp), 3: Fraction(16, dp)}
            return own * held[zero]
        """),
    "valid by asserts": ("is_valid", """
        def is_valid(model, gpus, batch, layout):
            try:
                assert layout["dp"] * layout["pp"] * layout["tp"] == gpus
                assert not layout["pp"] > model["layers"]
                assert not model["heads"] % layout["tp"] and not model["d_ff"] % layout["tp"]
                low, high = sorted((model["kv_heads"], layout["tp"]))
                assert high % low == 0
                assert batch % (layout["dp"] * layout["mbs"]) == 0
            except AssertionError:
                return False
            return True
        """),
    "valid by returns": ("is_valid", """
        def is_valid(model, gpus, batch, layout):
            tp = layout["tp"]
            if gpus != layout["dp"] * layout["pp"] * tp or layout["pp"] > model["layers"]:
                return False
            if any(model[what] % tp for what in ("heads", "d_ff")):
                return False
            if model["kv_heads"] % tp != 0 and tp % model["kv_heads"] != 0:
                return False
            each, rest = divmod(batch, layout["dp"] * layout["mbs"])
            return rest == 0 and each >= 1
        """),
    "valid by all": ("is_valid", """
        from math import gcd

        def is_valid(model, gpus, batch, layout):
            (dp, pp, tp), kv = map(layout.get, ("dp", "pp", "tp")), model["kv_heads"]
            return all((
                gpus / dp / pp == tp, pp in range(1, model["layers"] + 1),
                gcd(model["heads"], model["d_ff"]) % tp == 0, gcd(kv, tp) in (kv, tp),
                batch in range(dp * layout["mbs"], batch + 1, dp * layout["mbs"]),
            ))
        """),
    "colour by points": ("regime", """
        def regime(per_node, layout, batch):
            pp, m = layout["pp"], batch // (layout["dp"] * layout["mbs"])
            bad = [per_node % layout["tp"] != 0, m < pp, (pp - 1) / (m + pp - 1) > 1 / 5]
            return "red" if layout["tp"] > per_node else "amber" if any(bad) else "green"
        """),
    "colour, the busy share": ("regime", """
        def regime(per_node, layout, batch):
            m = batch / layout["dp"] / layout["mbs"]
            busy = m / (m + layout["pp"] - 1)
            if layout["tp"] > per_node:
                return "red"
            return "amber" if per_node % layout["tp"] or busy < 0.8 else "green"
        """),
    "colour, amber at last": ("regime", """
        def regime(per_node, layout, batch):
            pp, m = layout["pp"], batch // layout["dp"] // layout["mbs"]
            if per_node % layout["tp"] == 0 and 4 * (pp - 1) <= m and m >= pp:
                return "green"
            return "amber" if layout["tp"] <= per_node else "red"
        """),
    "b by powers": ("prove_b", """
        def prove_b(parameters, gpus, tp, micro_batches, batch):
            rest, rows = gpus // tp, []
            for power in range(rest.bit_length()):
                p = 2**power
                if rest % p:
                    break
                share = lambda m: 1 - m / (m + p - 1)
                rows.append(dict(bubble_batch=share(batch * p // rest), pp=p, dp=rest // p,
                                 bubble_fixed=share(micro_batches), state=16 * parameters / gpus))
            return rows
        """),
    "b by recursion": ("prove_b", """
        def prove_b(parameters, gpus, tp, micro_batches, batch, pp=1):
            dp, rest = divmod(gpus, tp * pp)
            if rest:
                return []
            m = batch // dp
            row = {"dp": dp, "pp": pp, "state": 16 * (parameters / tp / pp / dp),
                   "bubble_fixed": (pp - 1) / (micro_batches + pp - 1),
                   "bubble_batch": (pp - 1) / (m + pp - 1), "m": m}
            return [row, *prove_b(parameters, gpus, tp, micro_batches, batch, 2 * pp)]
        """),
    "b, dp halves": ("prove_b", """
        from fractions import Fraction

        def prove_b(parameters, gpus, tp, micro_batches, batch):
            dp, pp, rows = Fraction(gpus, tp), 1, ()
            while dp.denominator == 1:
                fixed, at_batch = (Fraction(pp - 1, m + pp - 1)
                                   for m in (micro_batches, batch // int(dp)))
                state = Fraction(16) * int(parameters) / (dp * pp * tp)
                rows += (dict(dp=dp, pp=pp, state=state, bubble_fixed=fixed,
                              bubble_batch=at_batch),)
                dp, pp = dp / 2, pp * 2
            return rows
        """),
    "c by logarithms": ("prove_c", """
        from math import log2

        def prove_c(gpus, tp, layers, batch, mbs):
            rows = []
            for power in range(int(log2(min(gpus // tp, layers))), -1, -1):
                dp, pp = gpus // tp >> power, 1 << power
                m = batch // (dp * mbs)
                if m < 1:
                    return rows, "batch"
                rows.append(dict(dp=dp, pp=pp, m=m, bubble=1 - m / (m + pp - 1)))
            return rows, "pp = 1"
        """),
    "c by what can be": ("prove_c", """
        def prove_c(gpus, tp, layers, batch, mbs):
            every = [2**n for n in range(20) if 2**n <= layers and 2**n * tp <= gpus]
            rows = []
            for pp in every:
                dp = gpus // (pp * tp)
                m = batch / (dp * mbs)
                if m >= 1:
                    rows.insert(0, {"dp": dp, "pp": pp, "m": m, "bubble": (pp - 1) / (pp - 1 + m)})
            return (rows, "pp = 1") if len(rows) == len(every) else [rows, "batch"]
        """),
    "c by recursion": ("prove_c", """
        def prove_c(gpus, tp, layers, batch, mbs):
            def back(pp):
                if pp < 1:
                    return [], "pp = 1"
                dp = gpus // tp // pp
                m = batch // dp // mbs
                if not m:
                    return [], "batch"
                rows, word = back(pp // 2)
                row = {"dp": dp, "pp": pp, "m": m, "bubble": (pp - 1) / (m + pp - 1)}
                return [row, *rows], word
            pp = gpus // tp
            while pp > layers:
                pp //= 2
            return back(pp)
        """),
    "best by min": ("best_layout", """
        from itertools import product

        def best_layout(gpus, memory, cost, given):
            def seconds(at):
                try:
                    found, held = cost(**at)
                except ValueError:
                    return float("inf")
                return found if held <= memory else float("inf")

            every = [dict(dp=gpus // pp // tp, pp=pp, tp=tp, mbs=mbs)
                     for pp, tp, mbs in product(range(1, gpus + 1), range(1, gpus + 1), (1, 2, 4))
                     if gpus % (pp * tp) == 0]
            return min([given, *every], key=seconds)
        """),
    "best by sorting": ("best_layout", """
        def best_layout(gpus, memory, cost, given):
            found = []
            for dp in range(1, gpus + 1):
                for pp in range(1, gpus // dp + 1):
                    tp = gpus // dp // pp
                    if dp * pp * tp != gpus:
                        continue
                    for mbs in 4, 2, 1:
                        try:
                            found.append((*cost(dp, pp, tp, mbs), dp, pp, tp, mbs))
                        except ValueError as refused:
                            assert str(refused)
            best = sorted(one for one in found if one[1] <= memory)[0]
            return dict(zip(("dp", "pp", "tp", "mbs"), best[2:]))
        """),
    "best, lets cost refuse": ("best_layout", """
        def best_layout(gpus, memory, cost, given):
            best = (cost(**given)[0], tuple(given.values()))
            names = tuple(given)
            for pp in range(1, gpus + 1):
                for tp in range(1, gpus + 1):
                    for mbs in (1, 2, 4):
                        at = dict(zip(("dp", "pp", "tp", "mbs"), (gpus // (pp * tp), pp, tp, mbs)))
                        try:
                            seconds, held = cost(**at)
                        except ValueError:
                            continue
                        if held <= memory and seconds <= best[0]:
                            best = seconds, tuple(at[name] for name in names)
            return dict(zip(names, best[1]))
        """),
    "best with numpy's whole numbers": ("best_layout", """
        import numpy as np

        def best_layout(gpus, memory, cost, given):
            best, least = given, cost(**given)[0]
            numbers = np.arange(1, gpus + 1)
            for tp in numbers[gpus % numbers == 0]:
                for pp in numbers[gpus % (numbers * tp) == 0]:
                    for mbs in np.array([1, 2, 4]):
                        try:
                            seconds, held = cost(gpus // (tp * pp), pp, tp, mbs)
                        except ValueError:
                            continue
                        if held <= memory and seconds < least:
                            least = seconds
                            best = {"dp": gpus // (tp * pp), "pp": pp, "tp": tp, "mbs": mbs}
            return best
        """),
}  # fmt: skip
"""By its name: the exercise, and the text of the cell."""
