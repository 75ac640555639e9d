import json
import re

import numpy as np
import pytest

from hogshare import SGDClassifier, SGDRegressor, Stop, asysg_incon, problems, solve
from hogshare.io.tables import cell
from hogshare.report import Report, Trace, _short


class Model:
    coef = np.array([[0.0, 1.0, 2.0]], np.float32)
    intercept = np.zeros(1, np.float32)
    t = 5.0


def a_trace():
    return Trace(
        epochs=[0.0, 1.0, 2.0, 3.0],
        blocks=[0, 4, 8, 12],
        seconds=[0.0, 0.5, 1.0, 2.0],
        objective=[1.0, 0.5, 0.6, 0.2],
    )


def a_report(**changes):
    values = {
        "model": Model(),
        "settings": {"runtime": "threads", "step": {"kind": "optimal", "eta0": 0.01}},
        "versions": {"numpy": "2"},
        "machine": {"cores": np.int64(2)},
        "n_epochs": 3,
        "stop_reason": "all epochs done",
        "epoch_losses": np.array([0.7, 0.5, np.nan]),
        "trace": a_trace(),
        "workers": [
            {"worker": 0, "state": "done", "blocks": 7, "pid": 11},
            {"worker": 1, "state": "<dead>", "blocks": 5, "pid": 12},
        ],
        "staleness": np.array([90, 0, 9, 1, 0]),
        "seconds": {"setup": 0.1, "run": 2.0, "total": 2.1},
        "notes": ["runtime: threads, because rows are <private>"],
    }
    return Report(**(values | changes))


def test_crossing_is_interpolated():
    report = a_report()
    assert report.epochs_to(0.75) == pytest.approx(0.5)
    assert report.seconds_to(0.75) == pytest.approx(0.25)
    assert report.trace.first(0.75, "blocks") == pytest.approx(2.0)
    # the first crossing counts, also when the objective rises again
    assert report.epochs_to(0.55) == pytest.approx(0.9)
    assert report.seconds_to(0.4) == pytest.approx(1.5)


def test_crossing_at_the_ends():
    report = a_report()
    assert report.epochs_to(1.0) == 0.0
    assert report.epochs_to(0.2) == 3.0
    assert report.epochs_to(0.19) is None
    diverged = Trace([0, 1, 2], [0, 1, 2], [0, 1, 2], [np.nan, np.nan, 0.1])
    assert diverged.first(0.1) == 2.0
    assert diverged.first(0.0) is None


def test_a_run_without_trace_says_so():
    with pytest.raises(ValueError, match="trace=4"):
        a_report(trace=None).epochs_to(0.5)


def test_trace_of_unequal_lengths():
    with pytest.raises(ValueError, match="one length"):
        Trace([0, 1], [0, 1], [0, 1], [0.0])


def test_staleness():
    report = a_report()
    assert report.staleness_mean == pytest.approx((9 * 2 + 1 * 3) / 100)
    assert report.staleness_p95 == 2
    assert report.staleness_max == 3
    pushes = np.repeat(np.arange(5), report.staleness)
    assert report.staleness_p95 == np.percentile(pushes, 95, method="inverted_cdf")


@pytest.mark.parametrize("histogram", [np.zeros(4, np.int64), np.zeros(0, np.int64)])
def test_staleness_of_nobody(histogram):
    report = a_report(staleness=histogram)
    assert (report.staleness_mean, report.staleness_p95, report.staleness_max) == (0.0, 0, 0)
    assert "0, 0, 0" in report.table()


def test_json_is_json(tmp_path):
    report = a_report()
    text = report.to_json(tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == text + "\n"

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    back = json.loads(text, parse_constant=refuse)
    assert back["epoch_losses"] == [0.7, 0.5, None]
    assert back["trace"]["objective"] == [1.0, 0.5, 0.6, 0.2]
    assert back["machine"] == {"cores": 2}
    assert back["model"] == {
        "coef_shape": [1, 3],
        "dtype": "float32",
        "nonzero_coefs": 2,
        "t": 5.0,
    }
    assert back["staleness_max"] == 3


def test_table_and_text():
    report = a_report()
    text = report.table()
    assert str(report) == text
    assert text.startswith("2 workers, 3 epochs, 2 s, all epochs done")
    assert "kind=optimal, eta0=0.01" in text
    assert "note: runtime: threads" in text
    assert "<Report: 2 workers" in repr(report)
    assert "\t" not in text


def test_html_is_escaped():
    text = a_report()._repr_html_()
    assert "&lt;dead&gt;" in text
    assert "&lt;private&gt;" in text
    assert "<dead>" not in text


def test_a_bare_report_shows_itself():
    report = Report(model=None)
    assert json.loads(report.to_json())["model"] == {}
    assert "0 workers" in report.table()
    assert "<div>" in report._repr_html_()


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_plot(pyplot):
    axes = a_report().plot()
    assert len(axes) == 2
    np.testing.assert_allclose(axes[0].lines[0].get_ydata(), [1.0, 0.5, 0.6, 0.2])
    assert sum(bar.get_height() for bar in axes[1].patches) == pytest.approx(1.0)
    axes[0].figure.canvas.draw()


def test_plot_on_given_axes(pyplot):
    _, pair = pyplot.subplots(1, 2)
    assert a_report().plot(pair)[1] is pair[1]
    assert a_report().plot(pair[0]) == [pair[0]]


def test_plot_without_trace_or_pushes(pyplot):
    axes = a_report(trace=None, staleness=np.zeros(3, np.int64)).plot()
    assert axes[0].get_ylabel() == "mean loss while passing"
    axes[0].figure.canvas.draw()


def attribute(report, label):
    """What the row of that label shows, looked up on the report."""
    kind, _, rest = label.partition(": ")
    if kind == "seconds":
        return report.seconds[rest]
    if kind == "theory":
        return report.theory[rest.replace(" ", "_")]
    if label == "mean loss of the last epoch":
        return report.last_loss
    if label.endswith(" at the end"):
        return getattr(report, label.removesuffix(" at the end"))
    if label == "staleness mean, p95, max, in pushes":
        mean, p95, largest = report.staleness_mean, report.staleness_p95, report.staleness_max
        return f"{mean:.3g}, {p95}, {largest}"
    if label.endswith(" messages, bytes"):
        counted = report.traffic[label.removesuffix(" messages, bytes")]
        return f"{counted['messages']:,}, {counted['bytes']:,}"
    value = getattr(report, label)
    if isinstance(value, dict):
        if value.get("penalty") == "l2":
            value = {k: v for k, v in value.items() if k != "l1_ratio"}
        each = (f"{k}={cell(v)}" for k, v in value.items() if v is not None)
        return ", ".join(each) or "-"
    return value


RUNS = {
    "plain": {},
    "losses": {"stop": Stop(epochs=3, tol=0.0)},
    "traced": {"trace": 2, "runtime": "threads", "n_workers": 2, "barrier": "ssp:3"},
    "looked": {"rule": "saga", "stop": Stop(epochs=200, gradient=1e-3, relative_gap=0.1)},
    "confirmed": {"rule": "saga", "stop": Stop(epochs=50, tol=1e-3, confirm=True)},
    "simulated": {"runtime": "simulator", "n_workers": 4, "stragglers": "cds:1"},
    "master": {"plane": "master"},
}


@pytest.mark.parametrize("name", RUNS)
def test_every_figure_that_is_printed_is_an_attribute(name):
    X = np.random.RandomState(0).randn(60, 4)
    problem = problems.linear(X, (X[:, 0] > 0.0).astype(int), alpha=0.05)
    report = solve(problem, seed=0, **RUNS[name])
    facts = dict(report.facts())
    assert {k for k, value in report.settings.items() if value is not None} <= set(facts)
    for label, value in facts.items():
        assert attribute(report, label) == value, label
    lines = str(report).splitlines()
    shown = lines[4 : lines.index("", 4)]
    for line, (label, value) in zip(shown, facts.items(), strict=True):
        assert line.startswith(label) and line.endswith(cell(value).rstrip())
    count = f"{report.n_workers} worker{'s' * (report.n_workers != 1)}"
    unit = "virtual s" if name == "simulated" else "s"
    words = [count, f"{report.n_epochs} epoch", f"{report.run_seconds:.3g} {unit}"]
    for word in [*words, report.stop_reason]:
        assert word in lines[0]
    assert report.workers[-1]["worker"] == report.n_workers - 1
    assert all(f"note: {note}" in lines for note in report.notes)


def test_theory_is_shown_as_it_is():
    X = np.random.RandomState(0).randn(60, 4)
    problem = problems.linear(X, (X[:, 0] > 0.0).astype(int), alpha=0.05)
    report = asysg_incon(problem, n_workers=1, stop=2)
    rows = [(label, value) for label, value in report.facts() if label.startswith("theory: ")]
    assert rows
    for label, value in rows:
        known = attribute(report, label)
        assert value == (known if isinstance(known, (bool, int, float, str)) else _short(known))


def test_attributes_are_documented():
    documented = Report.__doc__.partition("Attributes\n")[2].partition("Examples\n")[0]
    named = {name for name, value in vars(Report).items() if isinstance(value, property)}
    for name in named:
        assert re.search(rf"\b{name}\b", documented), name
    assert named >= {"n_workers", "runtime", "plane", "rule", "barrier", "staleness_mean"}


def test_what_a_bare_report_lacks_is_none():
    report = Report(model=Model())
    assert report.n_workers == 0
    assert report.runtime is report.rule is report.run_seconds is None
    assert report.last_loss is report.objective is report.gradient is report.gap is None


def test_a_report_shows_what_was_given_and_nothing_that_is_not_set():
    X = np.random.default_rng(0).standard_normal((60, 3))
    run = {"max_iter": 3, "tol": None}
    facts = SGDClassifier(random_state=7, **run).fit(X, X[:, 0] > 0).report_.facts()
    shown = dict(facts)
    assert shown["random_state"] == 7 and "seed" not in shown
    assert "l1_ratio" not in shown["problem"] and "=-" not in " ".join(map(str, shown.values()))
    assert "stragglers" not in shown
    model = SGDRegressor(penalty="elasticnet", l1_ratio=0.3, **run).fit(X, X[:, 0])
    shown = dict(model.report_.facts())
    assert "l1_ratio=0.3" in shown["problem"] and "random_state" not in shown and "seed" in shown
