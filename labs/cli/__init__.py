"""The command line `labs`: list, run, check, hint, bisect, plan, doctor, tour, and grading.

    labs run tp_linear_pair --ranks 4        real ranks, measured beside formula
    labs check tp_linear_pair --from mine.ipynb
    labs bisect --from mine.ipynb            where a step on a mesh parts from one device
    labs plan --gpus 64 --params 70e9 --layers 80    the best layouts, and why not others
    labs plan tiny --dp 2 --pp 2 --tp 2      one of them on real ranks, measured beside predicted
    labs grade SUBMISSIONS --out DIR         a class's notebooks, judged out of their reach
    labs feedback DIR                        a page for each student
    labs export canvas DIR                   grades for csv, canvas, moodle, gradescope
    labs similar SUBMISSIONS                 which answers are alike

Exit codes: 0 all well, 1 a check is not ok or a run failed, 2 what was asked for cannot be.
Light to import: a command imports what it needs when it is called.
"""

from __future__ import annotations

import sys

import click

from labs.cli.refuse import BadInput


class _Course(click.Group):
    """Says in a sentence that a release for students has no grading."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if error.name != "labs.grading":
                raise
            raise BadInput(
                "this copy of the course is a release for students and has no grading; use the "
                "whole course"
            ) from None


@click.group(cls=_Course, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Labs on model parallelism, run on real torchrun ranks of this machine."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that knows no ✓ shows something else for it
            stream.reconfigure(errors="replace")


@main.command("list")
def list_command() -> None:
    """Topics and their exercises: kind, difficulty, minutes."""
    from labs.cli.listing import show

    click.echo(show())


@main.command("run")
@click.argument("topic")
@click.option("--ranks", type=int, default=None, help="How many; the topic knows a default.")
@click.option("--all", "everything", is_flag=True, help="Also what a lab leaves out by itself.")
@click.option("--only", metavar="SECTION", help="One section; any other word lists them.")
@click.option("--steps", type=int, default=None, help="Steps of training, where a lab trains.")
@click.option("--cold", is_flag=True, help="Start with the plain torchrun command.")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the run as JSON; - prints only it."
)
@click.option("--trace", metavar="FILE", help="Write what ranks did when, for ui.perfetto.dev.")
@click.option("--all-checks", "-v", "every", is_flag=True,
              help="Print each check, also where they are many.")  # fmt: skip
def run_command(
    topic: str, ranks: int | None, everything: bool, only: str | None, steps: int | None,
    cold: bool, json_file: str | None, trace: str | None, every: bool,
) -> None:  # fmt: skip
    """Run a lab and print each measurement beside its formula.

    Of more than 30 checks those that held are printed by kind, with the one nearest to its bound.

    TOPIC is its name, or its notebook's number or name: one_f_one_b, 03 or 03_one_f_one_b.
    """
    from labs.cli.run import run

    more = dict(only=only, steps=steps, all=everything or None)
    sys.exit(run(topic, ranks, cold, json_file, trace, every, **more))


@main.command("bisect")
@click.option("--layout", default="2,2,2", show_default=True, metavar="DP,PP,TP",
              help="The mesh; as many ranks are started.")  # fmt: skip
@click.option("--zero", type=int, default=1, show_default=True, help="What dp shares out, 0 to 3.")
@click.option("--tied", is_flag=True, help="Embedding and head share a weight.")
@click.option("--sequence-parallel", is_flag=True, help="The stream is split along T.")
@click.option("--from", "file", metavar="FILE", help="A notebook or Python file with your answers.")
def bisect_command(
    layout: str, zero: int, tied: bool, sequence_parallel: bool, file: str | None
) -> None:
    """Where a step on a mesh parts from one device: the first layer and direction."""
    from labs.cli.bisect import bisect

    sys.exit(bisect(layout, zero, tied, sequence_parallel, file))


@main.command("check")
@click.argument("what", metavar="TOPIC[:EXERCISE]")
@click.option(
    "--from",
    "file",
    metavar="FILE",
    help="A notebook or Python file with your answers; without it the course's are checked.",
)
def check_command(what: str, file: str | None) -> None:
    """Check answers on real ranks: values, gradients, traffic."""
    from labs.cli.check import check

    sys.exit(check(what, file))


@main.command("hint")
@click.argument("what", metavar="EXERCISE", required=False)
@click.argument("number", type=int, default=1)
def hint_command(what: str | None, number: int) -> None:
    """A hint for an exercise: the first, or that NUMBER."""
    from labs.cli.hint import hint

    sys.exit(hint(what, number))


@main.group("plan", invoke_without_command=True)
@click.option("--gpus", type=int, help="GPUs of the cluster, G.")
@click.option("--gpus-per-node", type=int, default=8, show_default=True, help="Joined by NVLink.")
@click.option("--gpu", default="H100-80GB", show_default=True, help="Type of GPU.")
@click.option("--params", type=float, help="Parameters of the model, N, as 70e9.")
@click.option("--layers", type=int, help="Layers, L.")
@click.option("--hidden", type=int, default=0, help="Hidden size, d; without it from N and L.")
@click.option("--heads", type=int, default=0, help="Query heads; without it heads of 128.")
@click.option("--kv-heads", type=int, default=0, help="KV heads; without it as many as heads.")
@click.option("--ffn", type=int, default=0, help="Width of the MLP; without it from N.")
@click.option("--gated", is_flag=True, help="The MLP is gated: three matrices.")
@click.option("--vocab", type=int, default=128256, show_default=True, help="Vocabulary.")
@click.option("--length", type=int, default=4096, show_default=True, help="Tokens a sequence.")
@click.option("--batch", type=int, default=512, show_default=True, help="Sequences a step.")
@click.option("--zero", type=int, default=1, show_default=True, help="ZeRO stage, 0 to 3.")
@click.option("--experts", type=int, default=1, help="More than 1 is refused.")
@click.option("--best", type=int, default=5, show_default=True, help="Plans to show.")
@click.option("--json", "as_json", is_flag=True, help="The plans as JSON.")
@click.option("--export", "target", metavar="TARGET",
              help="One plan as course, torchtitan, megatron-lm, text or json.")  # fmt: skip
@click.option("--rank", "number", type=int, default=1, show_default=True,
              help="Which plan of the list is exported.")  # fmt: skip
@click.pass_context
def plan_command(
    context: click.Context, gpus: int | None, gpus_per_node: int, gpu: str, params: float | None,
    layers: int | None, hidden: int, heads: int, kv_heads: int, ffn: int, gated: bool, vocab: int,
    length: int, batch: int, zero: int, experts: int, best: int, as_json: bool,
    target: str | None, number: int,
) -> None:  # fmt: skip
    """The best layouts for a model on a cluster, what they rest on, and what was refused."""
    if context.invoked_subcommand:
        return
    from labs.cli.plan import plan

    if gpus is None or params is None or layers is None:
        raise click.UsageError("--gpus, --params and --layers are needed")
    sys.exit(plan(gpus, gpus_per_node, gpu, params, layers, hidden, heads, kv_heads, ffn, gated,
                  vocab, length, batch, zero, experts, best, as_json, target, number))  # fmt: skip


@plan_command.command("tiny")
@click.option("--dp", type=int, default=1, show_default=True, help="Replicas.")
@click.option("--pp", type=int, default=1, show_default=True, help="Stages of the pipeline.")
@click.option("--tp", type=int, default=1, show_default=True, help="Ranks that share a layer.")
@click.option("--zero", type=int, default=1, show_default=True, help="What dp shares out, 0 to 3.")
@click.option("--micro-batches", type=int, default=4, show_default=True, help="Of a replica.")
@click.option("--from", "file", metavar="FILE.json", help="A plan that --export json wrote.")
def plan_tiny_command(
    dp: int, pp: int, tp: int, zero: int, micro_batches: int, file: str | None
) -> None:
    """Run a layout on at most 8 real ranks: what was predicted beside what was measured."""
    from labs.cli.plan import tiny

    sys.exit(tiny(dp, pp, tp, zero, micro_batches, file))


@plan_command.command("score")
@click.argument("file", metavar="FILE.csv")
@click.option("--json", "json_file", metavar="OUT", help="All of it as JSON; - prints only it.")
def plan_score_command(file: str, json_file: str | None) -> None:
    """How well the planner predicts the runs of a file with the columns of published.csv."""
    from labs.cli.plan import score

    sys.exit(score(file, json_file))


@main.command("grade")
@click.argument("submissions", metavar="SUBMISSIONS")
@click.option("--out", required=True, metavar="DIR", help="Where results and the gradebook go.")
@click.option("--jobs", type=int, help="Answers at a time; without it as many as cores.")
@click.option("--isolation", default="auto", show_default=True,
              help="Where answers run: auto, container, namespaces, user or none.")  # fmt: skip
@click.option("--points", "points_file", metavar="FILE.toml", help="Points and the late policy.")
@click.option("--notebook", "notebooks", multiple=True, metavar="TOPIC",
              help="Grade this one (more than once: these); else what was handed in.")  # fmt: skip
@click.option("--seconds", type=float, default=20.0, show_default=True,
              help="A launch's most; those that get more get as many times more.")  # fmt: skip
@click.option("--regrade", is_flag=True, help="Grade again what is graded, with other inputs.")
@click.option("--only", multiple=True, metavar="NAME", help="With --regrade: a student, exercise.")
@click.option("--diff", is_flag=True, help="Print which grades changed.")
def grade_command(
    submissions: str, out: str, jobs: int | None, isolation: str, points_file: str | None,
    notebooks: tuple[str, ...], seconds: float, regrade: bool, only: tuple[str, ...], diff: bool,
) -> None:  # fmt: skip
    """Grade a folder or zip of notebooks, one a student, outside the students' reach.

    A run that was broken off goes on where it stopped when the same command is given.
    """
    from labs.cli.grade import grade

    sys.exit(grade(submissions, out, jobs, isolation, points_file, notebooks, seconds, regrade,
                   only, diff))  # fmt: skip


@main.command("feedback")
@click.argument("folder", metavar="DIR")
def feedback_command(folder: str) -> None:
    """A page for each student, from the folder DIR that `labs grade` wrote."""
    from labs.cli.feedback import pages

    sys.exit(pages(folder))


@main.command("export")
@click.argument("kind", type=click.Choice(["csv", "canvas", "moodle", "gradescope"]))
@click.argument("folder", metavar="DIR")
@click.option("--out", metavar="FILE", help="Where to; for gradescope a folder. Default: in DIR.")
@click.option("--roster", metavar="FILE.csv", help="Who takes the course, as the platform exports.")
@click.option("--assignment", default="Model parallelism labs", show_default=True,
              metavar="NAME", help="Canvas: the assignment, as \"Labs (1234)\".")  # fmt: skip
def export_command(
    kind: str, folder: str, out: str | None, roster: str | None, assignment: str
) -> None:
    """The grades of DIR for a spreadsheet, Canvas, Moodle or Gradescope."""
    from labs.cli.export import make

    sys.exit(make(kind, folder, out, roster, assignment))


@main.command("similar")
@click.argument("submissions", metavar="SUBMISSIONS")
@click.option("--exercise", metavar="NAME", help="One exercise; without it all graded ones.")
def similar_command(submissions: str, exercise: str | None) -> None:
    """Pairs of answers that are alike: a question to ask, not a verdict. Nothing is run."""
    from labs.cli.similar import report

    sys.exit(report(submissions, exercise))


@main.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON.")
def doctor_command(as_json: bool) -> None:
    """What this machine offers, and what is missing."""
    from labs.cli.doctor import doctor

    sys.exit(doctor(as_json))


@main.command("tour")
@click.option("--cold", is_flag=True, help="Start with the plain torchrun command.")
def tour_command(cold: bool) -> None:
    """Run every lab there is, one after the other."""
    from labs.cli.tour import tour

    sys.exit(tour(cold))


@main.command("release")
@click.option(
    "--out", required=True, metavar="DIR|ZIP", help="A folder, or a zip that ends in .zip."
)
@click.option("--with-answers", multiple=True, metavar="TOPIC",
              help="Hand over these answers too; may be given more than once.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace an earlier release.")
def release_command(out: str, with_answers: tuple[str, ...], force: bool) -> None:
    """For instructors: the course without its answers, for students.

    Every file is compared with the answers first; where one is inside, nothing is written.
    """
    from labs.cli.release import release

    sys.exit(release(out, with_answers, force))
