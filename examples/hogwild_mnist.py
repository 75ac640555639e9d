"""Hogwild on MNIST: a PyTorch network, trained by two processes on one vector without locks.

It reads MNIST's four IDX files from the folder named by HOGSHARE_DATA; without them it uses
scikit-learn's digits, which are smaller. It takes a few seconds either way::

    HOGSHARE_DATA=FOLDER python examples/hogwild_mnist.py
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from hogshare import SGD, Shared, datasets, problems, solve


def rows():
    """Pixels and digits, to train on and to test on."""
    try:
        sets = [datasets.load(f"mnist-digits{which}", dtype="float32") for which in ("", "-test")]
    except ValueError:  # no such files
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split((X / 16).astype("float32"), y, random_state=0)
        sets = [(X, y), (X_test, y_test)]
    return [tuple(map(torch.from_numpy, both)) for both in sets]


def main():
    """Train, and print the accuracy and the staleness."""
    train, (X_test, y_test) = rows()
    torch.manual_seed(0)
    n_pixels = X_test.shape[1]
    layers = torch.nn.Linear(n_pixels, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)
    module = torch.nn.Sequential(*layers)

    problem = problems.torch(module, torch.nn.functional.cross_entropy, train)
    run = {"runtime": "processes", "n_workers": 2, "plane": Shared(exchange=None)}
    report = solve(problem, rule=SGD(batch=64), step=0.5, stop=8, seed=0, **run)

    with torch.no_grad():
        right = (report.model.module(X_test).argmax(dim=1) == y_test).float().mean()
    print(f"{len(train[0])} rows, {report.n_epochs} epochs in {report.seconds['run']:.2f} s")
    print(f"of the test rows right: {right:.4f}")
    print(f"steps of others between a read and its step: {report.staleness_mean:.2f} on average,")
    print(f"at most {report.staleness_max}")


if __name__ == "__main__":
    main()
