import json

import numpy as np
import pytest

from hogshare.report import Report, Trace


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
