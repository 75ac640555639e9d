"""``hogshare predict``: labels or probabilities of a stored model for the rows of a file."""

from __future__ import annotations

from typing import Any

from hogshare.cli import console, options, outputs, rows

DESCRIPTION = """\
Print one prediction a line. With --proba, the first line has the classes and every other line their
probabilities, with tabs between.

In a file of LIBSVM text the model's columns are looked for where those of the file that it was
fitted to were: indices begin at 0 or 1 as they did there. Values in further columns are left out,
and columns that do not occur are zero."""
EXAMPLES = """\
examples:
  hogshare predict a9a.npz a9a.t.xz --out labels.txt
  hogshare predict a9a.npz rows.svm --zero-based --proba"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "predict",
        help="predict with a stored model",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=options.HelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="model file, as hogshare fit writes it")
    parser.add_argument("data", metavar="DATA", help=options.DATA_HELP)
    parser.add_argument("--out", metavar="FILE", default="-", help="file to write (default: -)")
    parser.add_argument("--proba", action="store_true", help="probabilities of all classes")
    options.add_file_options(parser, "as in the file that the model was fitted to")
    parser.set_defaults(run=run)


def run(args: Any) -> int:
    """Predict and print; tell the score where the rows have labels."""
    from pathlib import Path

    from hogshare import files, modelfile, saving

    for flag, path in {"MODEL": args.model, **rows.files_read(args)}.items():
        outputs.check_distinct({flag: path, "--out": args.out})
    outputs.check_file(args.out)
    saved = modelfile.load(args.model)
    estimator = saving.to_estimator(saved, args.model)
    args.dtype = estimator.coef_.dtype.name
    expected = rows.Expected(saved.n_features, saved.zero_based, args.model)
    X, y, _ = rows.load(args, args.data, expected)
    text = "\n".join(lines(estimator, X, args.proba))
    if args.out == outputs.PRINT:
        console.out(text)
    else:
        files.replace(Path(args.out), f"{text}\n".encode())
    if y is not None:
        say_score(estimator, X, y)
    return 0


def lines(estimator: Any, X: Any, proba: bool) -> list[str]:
    """Return the lines to print."""
    if not proba:
        return [str(label) for label in estimator.predict(X).tolist()]
    if not hasattr(estimator, "predict_proba"):
        loss = f" with loss {estimator.loss}" if hasattr(estimator, "loss") else ""
        raise ValueError(
            f"a {type(estimator).__name__}{loss} has no probabilities; fit a classification with "
            "--estimator logistic, or with --loss log_loss"
        )
    header = "\t".join(str(name) for name in estimator.classes_.tolist())
    table = estimator.predict_proba(X).tolist()
    return [header, *("\t".join(f"{value:.9g}" for value in row) for row in table)]


def say_score(estimator: Any, X: Any, y: Any) -> None:
    """Tell accuracy or R2 on standard error, unless labels are missing or of another kind."""
    regression = not hasattr(estimator, "classes_")
    if rows.missing(y).size:
        return
    if not regression:
        y = rows.class_labels(y)
        if y.dtype.kind != estimator.classes_.dtype.kind:
            return
    console.say(
        f"{'R2' if regression else 'accuracy'} against the file's labels: "
        f"{estimator.score(X, y):.4f}"
    )
