"""Wrong bytes of state on a GPU: state_bytes_per_gpu."""

from labs.judging import FORMULA
from tests.mutants.planner.wrong import of

_wrong = of("state_bytes_per_gpu", "parameters, dp, pp, tp, zero")
_ALL = (FORMULA,)
MUTANTS = [
    _wrong("stages_not_added_up", _ALL, ("shares out what the stages before it do",), """
        own = parameters / (pp * tp)
        weights, gradients, optimizer = 2 * own, 2 * own, 12 * own
        if zero == 1:
            optimizer /= dp
        if zero == 2:
            gradients /= dp
        if zero == 3:
            weights /= dp
        return weights + gradients + optimizer
    """),
    _wrong("zero_ignored", _ALL, ("dp shares nothing here", "from zero-1 on"), """
        return 16 * parameters / (pp * tp)
    """),
    _wrong("all_of_it_by_dp", _ALL, ("as zero-3 does", "whole on every replica"), """
        return 16 * parameters / (dp * pp * tp)
    """),
    _wrong("by_dp_only", _ALL, ("pp and tp are missing",), """
        weights, rest = (4, 12) if zero < 2 else (2, 14) if zero < 3 else (0, 16)
        return parameters * (weights + rest / dp if zero else 16)
    """),
    _wrong("pp_forgotten", _ALL, ("pp is missing",), """
        own = parameters / tp
        shared = (0, 12, 14, 16)[zero]
        return own * (16 - shared + shared / dp)
    """),
    _wrong("tp_forgotten", _ALL, ("tp is missing",), """
        own = parameters / pp
        shared = (0, 12, 14, 16)[zero]
        return own * (16 - shared + shared / dp)
    """),
    _wrong("fp32_throughout", _ALL, ("table of fp32 alone", "12 of optimizer"), """
        own, shared = parameters / (pp * tp), (0, 8, 12, 16)[zero]
        return own * (16 - shared + shared / dp)
    """),
    _wrong("gradients_in_fp32", _ALL, ("gradients cost 2 bytes here, not 4",), """
        own, shared = parameters / (pp * tp), (0, 12, 16, 18)[zero]
        return own * (18 - shared + shared / dp)
    """),
    _wrong("no_master_copy", _ALL, ("master copy is missing",), """
        own, shared = parameters / (pp * tp), (0, 8, 10, 12)[zero]
        return own * (12 - shared + shared / dp)
    """),
    _wrong("stages_off_by_one", _ALL, ("that is zero-", "not 0"), """
        own, shared = parameters / (pp * tp), (12, 14, 16, 16)[zero]
        return own * (16 - shared + shared / dp)
    """),
    _wrong("gradients_from_three_on", _ALL, ("that is zero-1, not 2",), """
        own, shared = parameters / (pp * tp), (0, 12, 12, 16)[zero]
        return own * (16 - shared + shared / dp)
    """),
    _wrong("of_all_gpus", _ALL, ("what all gpus hold together",), """
        own, shared = parameters / (pp * tp), (0, 12, 14, 16)[zero]
        return own * (16 - shared + shared / dp) * dp * pp * tp
    """),
    _wrong("bytes_a_parameter", _ALL, ("bytes a parameter",), """
        shared = (0, 12, 14, 16)[zero]
        return (16 - shared + shared / dp) / (pp * tp)
    """),
    _wrong("axes_added", _ALL, ("got", "expected", "multiply"), """
        own, shared = parameters / (pp + tp), (0, 12, 14, 16)[zero]
        return own * (16 - shared + shared / dp)
    """),
    _wrong("in_gb", _ALL, ("in gb",), """
        own, shared = parameters / (pp * tp), (0, 12, 14, 16)[zero]
        return own * (16 - shared + shared / dp) / 1e9
    """),
    _wrong("no_return", _ALL, ("returned none, not a number",), """
        own = parameters / (pp * tp)
    """, breaks=True),
    _wrong("a_tuple", _ALL, ("not a number",), """
        return 2 * parameters, 2 * parameters, 12 * parameters
    """, breaks=True),
]  # fmt: skip
