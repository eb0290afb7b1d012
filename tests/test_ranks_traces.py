"""What a run's folder tells of its ranks, read anew where it changes and once where it does not."""

from labs.ranks.traces import Traces


def test_a_process_id_is_read_once_it_is_told(tmp_path):
    traces = Traces(tmp_path, 1)
    assert traces.pid_of(0) == 0
    (tmp_path / "pid.0").write_text("")
    assert traces.pid_of(0) == 0
    (tmp_path / "pid.0").write_text("41")
    assert traces.pid_of(0) == 41
    traces.forget()  # the next attempt has other processes
    assert traces.pid_of(0) == 0
    (tmp_path / "pid.0").write_text("42")
    assert traces.pid_of(0) == 42


def test_all_have_reported_well_when_nobody_is_silent(tmp_path):
    traces = Traces(tmp_path, 2)
    for rank, state in ((0, "done"), (1, "running"), (1, "done")):
        assert not traces.all_reported_well() and traces.silent()
        (tmp_path / f"report.{rank}").touch()
        (tmp_path / f"state.{rank}").write_text(state)
    assert traces.all_reported_well() and traces.silent() == []
