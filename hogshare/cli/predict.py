"""``hogshare predict``: predict the rows of a file with a stored model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hogshare.cli import command_rows, console, options, outputs, rating_files

if TYPE_CHECKING:
    from hogshare.cli.scores import Score

DESCRIPTION = """\
Print one prediction per line. With --proba, the first line has the classes and every other line
their probabilities, separated by tabs. For a model of topics every line has the document's shares
of the topics, separated by tabs, and labels of the file are ignored. Rows of text are predicted as
they arrive, so a pipe may be of any length.

In LIBSVM text, indices begin at 0 or 1 as in the file that the model was fitted to. Values in
further columns are left out, and columns that do not occur are zero. In CSV, columns are found by
name if the file of the fit had names, else in order.

For a factorisation a line of DATA is a user and an item, and optionally a rating to compare the
prediction with."""
EXAMPLES = """\
examples:
  hogshare predict a9a.npz a9a.t.xz --out labels.txt
  hogshare predict a9a.npz rows.svm --zero-based --proba
  xzcat a9a.t.xz | hogshare predict a9a.npz - | sort | uniq -c"""


def add_parser(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "predict",
        help="predict with a stored model",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="model file, as hogshare fit writes it")
    parser.add_argument("data", metavar="DATA", help=options.DATA_HELP)
    parser.add_argument("--out", metavar="FILE", default="-", help="file to write (default: -)")
    parser.add_argument("--proba", action="store_true", help="probabilities of all classes")
    options.add_file_options(
        parser,
        "as in the file that the model was fitted to",
        "as in that file, if present; labels are only compared",
    )
    options.add_quiet(parser)
    parser.set_defaults(run=run, prints=lambda args: args.out == outputs.PRINT)


def run(args: Any) -> int:
    """Predict and print; report the score if the rows have labels."""
    from hogshare.cli.csv_columns import Expected
    from hogshare.cli.scores import Score
    from hogshare.estimators import fitted_attributes
    from hogshare.io.models import encoders, model_file, save_load

    for flag, path in command_rows.files_read(args, "DATA", MODEL=args.model).items():
        outputs.check_distinct({flag: path, "--out": args.out})
    outputs.check_file(args.out)
    saved = model_file.load(command_rows.path_of(args.model))
    # rows have the model's columns in the model's order, without names
    names = saved.attributes.pop("feature_names_in_", None)
    estimator = save_load.to_estimator(saved, args.model)
    check_probabilities(estimator, args.proba)
    score = Score(estimator)
    if saved.class_name == rating_files.CLASS:
        parts = rating_files.predict(args, estimator)
    else:
        args.dtype = fitted_attributes.dtype(estimator).name
        encoder, n_features = None, saved.n_features
        if saved.encoding:
            encoder = encoders.to_encoder(saved.encoding)
            n_features = encoder.n_features_in_
            names = getattr(encoder, "feature_names_in_", None)
        names = None if names is None else tuple(names.tolist())
        expected = Expected(
            n_features, saved.zero_based, args.model, names, saved.label_column, encoder
        )
        parts = predicted(args, estimator, command_rows.iterate(args, expected), score)
    with writer(args.out) as write:
        for lines in parts:
            write("".join(f"{line}\n" for line in lines))
    if (said := score.in_words()) is not None:
        console.note(said)
    return 0


def predicted(args: Any, estimator: Any, parts: Any, score: Score) -> Iterator[list[str]]:
    """Yield lines of predictions, part by part: labels, probabilities, or shares of topics."""
    from hogshare.cli import label_tasks

    begun = is_said = False
    for X, y in parts:
        if not hasattr(estimator, "predict"):
            label_tasks.check_counts(X, args.data)
            is_said = is_said or label_tasks.report_ignored(y, args.data)
            yield table(estimator.transform(X))
            continue
        found = None
        if y is not None or not args.proba:
            found = estimator.predict(X)
            lines = [str(label) for label in found.tolist()]
        if args.proba:
            names = [] if begun else ["\t".join(map(str, estimator.classes_.tolist()))]
            lines = names + table(estimator.predict_proba(X))
        yield lines
        begun = True
        score.add(y, found)


@contextmanager
def writer(path: str) -> Iterator[Any]:
    """Provide a function that writes text to a file, or prints it, at once."""
    from pathlib import Path

    from hogshare.system import files

    if path == outputs.PRINT:
        yield console.put
        return
    with files.replacing(Path(path)) as stream:

        def write(text: str) -> None:
            stream.write(text.encode())
            stream.flush()

        yield write


def check_probabilities(estimator: Any, proba: bool) -> None:
    """Refuse a request for probabilities if the model has none."""
    if proba and not hasattr(estimator, "predict_proba"):
        loss = f" with loss {estimator.loss}" if hasattr(estimator, "loss") else ""
        raise ValueError(
            f"a {type(estimator).__name__}{loss} has no probabilities; fit a classification with "
            "--estimator logistic, or with --loss log_loss"
        )


def table(values: Any) -> list[str]:
    """Return a line for each row of an array."""
    return ["\t".join(f"{value:.9g}" for value in row) for row in values.tolist()]
