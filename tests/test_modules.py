"""Modules of torch as problems."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from hogshare import BSP, SGD, Adam, Checkpoint, Master, Shared, Stop, asysg_con, problems, solve
from hogshare.problems.gradient import GradientError

torch = pytest.importorskip("torch")
functional = torch.nn.functional

N, D, HIDDEN = 600, 6, 5


@pytest.fixture(autouse=True)
def one_thread():
    """Of torch's: where others compute too, two of them wait for each other's core at each call."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rows():
    draws = torch.Generator().manual_seed(0)
    X = torch.randn(N, D, generator=draws)
    return X, (X[:, 0] * X[:, 1] > 0).long()


def network(dtype=torch.float64):
    torch.manual_seed(1)
    layers = torch.nn.Linear(D, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 2)
    return torch.nn.Sequential(*layers).to(dtype)


def problem(dtype=torch.float64, **settings):
    X, y = rows()
    return problems.torch(network(dtype), functional.cross_entropy, (X.to(dtype), y), **settings)


def by_numpy():
    """The same network, loss and start, as a gradient in NumPy."""
    X, y = (tensor.numpy() for tensor in rows())
    X = X.astype(np.float64)
    a = HIDDEN * D
    b, c = a + HIDDEN, a + HIDDEN + 2 * HIDDEN

    def parts(w):
        return w[:a].reshape(HIDDEN, D), w[a:b], w[b:c].reshape(2, HIDDEN), w[c:]

    def gradient(w, which, out):
        first, bias, second, last = parts(w)
        x = X[which]
        h = np.tanh(x @ first.T + bias)
        z = h @ second.T + last
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z)
        p /= p.sum(axis=1, keepdims=True)
        mine = np.arange(len(which)), y[which]
        loss = -np.log(p[mine]).sum()
        p[mine] -= 1.0
        of_first, of_bias, of_second, of_last = parts(out)
        of_second += p.T @ h
        of_last += p.sum(axis=0)
        back = (p @ second) * (1.0 - h * h)
        of_first += back.T @ x
        of_bias += back.sum(axis=0)
        return loss

    start = problem().start()
    return problems.user(gradient, N, len(start), start=start)


RUN = {"rule": SGD(batch=20), "step": 0.5, "seed": 0}
RUNTIMES = ["threads", "processes", "simulator"]


@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
def test_a_module_is_the_network_that_numpy_computes(plane):
    settings = {**RUN, "stop": 10, "plane": plane, "n_workers": 1, "trace": 1}
    mine = solve(problem(), **settings)
    same = solve(by_numpy(), **{**settings, "step": 0.5 / 20})  # of a sum
    np.testing.assert_allclose(mine.model.params, same.model.params, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mine.trace.objective, same.trace.objective, rtol=1e-9)
    assert mine.objective < 0.5 * mine.trace.objective[0]


def test_one_worker_is_torchs_own_loop():
    orders = []
    X, y = rows()

    class Spy(torch.utils.data.Dataset):
        def __len__(self):
            return N

        def __getitem__(self, row):
            orders.append(row)
            return X[row].double(), y[row]

    spied = problems.torch(network(), functional.cross_entropy, Spy())
    report = solve(spied, runtime="caller", stop=2, **RUN)
    module = network()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    for first in range(len(orders) - 2 * N, len(orders), 20):
        batch = orders[first : first + 20]
        optimiser.zero_grad()
        functional.cross_entropy(module(X[batch].double()), y[batch]).backward()
        optimiser.step()
    known = torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    np.testing.assert_allclose(report.model.params, known, rtol=1e-9)
    for mine, its in zip(report.model.module.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(mine, its)


def normalised(frozen):
    """With weights and statistics of its own in the middle, and a last mini-batch of 10 rows."""
    torch.manual_seed(1)
    middle = torch.nn.BatchNorm1d(HIDDEN)
    module = torch.nn.Sequential(
        torch.nn.Linear(D, HIDDEN, bias=False), middle, torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 2)
    ).double()
    torch.nn.init.normal_(middle.running_mean)
    if frozen:
        middle.eval()
    return module


optim = torch.optim
AHEAD, DECAY = {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1}
BETAS = {"beta_1": 0.8, "beta_2": 0.99, "epsilon": 0.01}
OPTIMISERS = {
    "plain": (SGD(), lambda p, eta: optim.SGD(p, eta)),
    "heavy": (SGD(momentum=0.9), lambda p, eta: optim.SGD(p, eta, momentum=0.9)),
    "ahead": (SGD(**AHEAD), lambda p, eta: optim.SGD(p, eta, **AHEAD)),
    "decay": (SGD(**DECAY), lambda p, eta: optim.SGD(p, eta, **DECAY)),
    "both": (SGD(**AHEAD, **DECAY), lambda p, eta: optim.SGD(p, eta, **AHEAD, **DECAY)),
    "adam": (Adam(), lambda p, eta: optim.Adam(p, eta)),
    "adam of shares": (
        Adam(**BETAS),
        lambda p, eta: optim.Adam(p, eta, betas=(0.8, 0.99), eps=0.01),
    ),
    "adamw": (Adam(**DECAY), lambda p, eta: optim.AdamW(p, eta, **DECAY)),
}


@pytest.mark.parametrize(
    ("reduction", "clip", "frozen"),
    [("mean", None, False), ("mean", 0.1, False), ("mean", None, True), ("sum", 2.0, False)],
)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_setting_of_an_optimiser_is_torchs(name, reduction, clip, frozen):
    """Parameters, and what layers keep of the rows; a step size is a batch's, whatever its rows."""
    rule, made = OPTIMISERS[name]
    eta = 0.05 if reduction == "mean" else 0.05 / 20
    X, y = (tensor[:250] for tensor in rows())  # the last batch of an epoch has ten rows

    def loss(output, target):
        return functional.cross_entropy(output, target, reduction=reduction)

    known = normalised(frozen)
    optimiser, shortened = made(known.parameters(), eta), 0
    for _ in range(3):
        for batch in torch.arange(len(X)).split(20):
            optimiser.zero_grad()
            loss(known(X[batch].double()), y[batch]).backward()
            if clip is not None:
                shortened += torch.nn.utils.clip_grad_norm_(known.parameters(), clip) > clip
            optimiser.step()
    stated = problems.torch(normalised(frozen), loss, (X.double(), y), reduction=reduction)
    assert clip is None or shortened > 10
    run = {"step": eta, "stop": 3, "shuffle": False, "n_workers": 1, "runtime": "caller"}
    report = solve(stated, rule=dataclasses.replace(rule, batch=20, clip=clip), **run)
    # torch adds a millionth to the norm by which it divides
    close = {"rtol": 1e-9, "atol": 1e-12} if clip is None else {"rtol": 1e-3, "atol": 1e-4}
    found = report.model.module
    assert [part.training for part in found] == [part.training for part in known]
    for key, tensor in known.state_dict().items():
        torch.testing.assert_close(found.state_dict()[key], tensor, **close)


def test_a_module_in_the_mode_of_use_is_trained_in_it():
    module = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(D, 2)).double().eval()
    X, y = rows()
    made = problems.torch(module, functional.cross_entropy, (X.double(), y))
    first, second = (solve(made, stop=2, **RUN).model for _ in range(2))
    np.testing.assert_array_equal(first.params, second.params)
    assert not first.module.training


def test_a_step_by_the_mean_is_so_in_the_papers_algorithms():
    report = asysg_con(problem(), n_workers=1, batch=20, step=0.5, epochs=3, seed=0, theory=False)
    plain = solve(problem(), plane=Master(), n_workers=1, stop=3, **RUN)
    np.testing.assert_allclose(report.model.params, plain.model.params, rtol=1e-12)


@pytest.mark.parametrize("plane", [Shared(), Master()], ids=repr)
def test_bsp_repeats_bit_for_bit_in_every_runtime(plane):
    settings = {**RUN, "stop": 3, "barrier": BSP(), "plane": plane, "n_workers": 2}
    first, *others = (solve(problem(), runtime=r, **settings).model.params for r in RUNTIMES)
    for other in others:
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_hogwild_in_single_precision(runtime):
    """How long it stays on the plateau where it begins hangs on who comes when."""
    settings = {**RUN, "stop": 60, "plane": Shared(exchange=None), "n_workers": 2, "trace": 1}
    report = solve(problem(torch.float32), runtime=runtime, **settings)
    assert report.model.params.dtype == np.float32
    assert report.objective < 0.8 * report.trace.objective[0]
    assert report.n_workers == 2


def test_auto_takes_processes():
    assert not problem().releases_interpreter


def test_the_users_module_stays_as_it_is():
    module = network()
    before = copy.deepcopy(module.state_dict())
    X, y = rows()
    report = solve(problems.torch(module, functional.cross_entropy, (X.double(), y)), stop=2, **RUN)
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name])
    assert all(p.grad is None for p in module.parameters())
    back = report.model.module
    assert back is not module and isinstance(back, torch.nn.Sequential)
    vector = torch.nn.utils.parameters_to_vector(back.parameters()).detach().numpy()
    np.testing.assert_array_equal(vector, report.model.params)


def test_what_is_frozen_is_not_trained():
    module = network()
    module[0].requires_grad_(False)
    X, y = rows()
    frozen = module[0].weight.clone()
    report = solve(problems.torch(module, functional.cross_entropy, (X.double(), y)), stop=2, **RUN)
    assert report.model.params.shape == (2 * HIDDEN + 2,)
    torch.testing.assert_close(report.model.module[0].weight, frozen)


@pytest.mark.parametrize("runtime", ["caller", *RUNTIMES])
def test_buffers_are_the_first_workers(runtime):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(D), torch.nn.Linear(D, 2))
    X, y = rows()
    made = problems.torch(module, functional.cross_entropy, (X + 5.0, y))
    n_workers = 1 if runtime == "caller" else 2
    settings = {**RUN, "stop": 10, "barrier": BSP(), "trace": 1}
    report = solve(made, runtime=runtime, n_workers=n_workers, **settings)
    found = report.model.module[0].running_mean
    assert module[0].running_mean.abs().max() == 0.0
    torch.testing.assert_close(found, torch.full((D,), 5.0), atol=0.5, rtol=0.0)


def test_dropout_repeats_with_a_seed():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(D, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
    )
    X, y = rows()

    def run(seed):
        made = problems.torch(module, functional.cross_entropy, (X, y), seed=seed)
        return solve(made, stop=3, **RUN).model.params

    np.testing.assert_array_equal(run(3), run(3))
    assert (run(3) != run(4)).any()


def test_evaluating_draws_the_same_and_nothing_of_the_users():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Dropout(), torch.nn.Linear(8, 2))
    made = problems.torch(module, functional.cross_entropy, rows())
    before = torch.get_rng_state()
    at = made.start()
    assert made.objective(at) == made.objective(at) > 0.0
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_that_draws_goes_on_from_its_checkpoint(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.Dropout(), torch.nn.Linear(8, 2))
    made = problems.torch(module, functional.cross_entropy, rows())
    solve(made, stop=1, checkpoint=tmp_path / "run.npz", **RUN)
    assert solve(made, stop=2, resume=tmp_path / "run.npz", **RUN).n_epochs == 2


def test_a_mean_and_a_sum_are_one_loss(tmp_path):
    def summed(output, target):
        return functional.cross_entropy(output, target, reduction="sum")

    X, y = rows()
    by_sum = problems.torch(network(), summed, (X.double(), y), reduction="sum")
    mine = solve(problem(), stop=3, checkpoint=tmp_path / "run.npz", **RUN).model.params
    same = solve(by_sum, stop=3, **{**RUN, "step": 0.5 / 20}).model.params
    np.testing.assert_allclose(mine, same, rtol=1e-10)
    assert problem().evaluate(mine)[0] == pytest.approx(by_sum.evaluate(mine)[0], rel=1e-12)
    slopes = (p.evaluate(mine)[1] for p in (problem(), by_sum))
    np.testing.assert_allclose(*slopes, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="reduction was 'mean' and is 'sum'"):
        solve(by_sum, stop=4, resume=tmp_path / "run.npz", **RUN)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    solve(problem(), stop=2, checkpoint=path, **RUN)
    resumed = solve(problem(), stop=4, resume=path, **RUN)
    np.testing.assert_array_equal(
        resumed.model.params, solve(problem(), stop=4, **RUN).model.params
    )
    assert Checkpoint(path).model().params.shape == resumed.model.params.shape


def test_it_stops_where_the_gradient_is_small():
    report = solve(problem(), **RUN, stop=Stop(epochs=400, gradient=0.05))
    assert report.converged and report.gradient <= 0.05


def test_the_report_travels():
    report = solve(problem(), stop=1, **RUN)
    again = pickle.loads(pickle.dumps(report.model))
    np.testing.assert_array_equal(again.params, report.model.params)
    assert report.problem["gradient"] == "Sequential" and report.to_json()


def test_threads_of_torch_are_as_before():
    torch.set_num_threads(2)
    seen = []

    def loss(output, target):
        seen.append(torch.get_num_threads())
        return functional.cross_entropy(output, target)

    X, y = rows()
    made = problems.torch(network(), loss, (X.double(), y))
    solve(made, stop=1, runtime="threads", n_workers=2, **RUN)
    assert seen[-1] == 1 and torch.get_num_threads() == 2


def test_what_is_no_module_and_no_rows():
    X, y = rows()
    loss = functional.cross_entropy
    for words, arguments in {
        "module must be a torch.nn.Module": (lambda x: x, loss, (X, y)),
        "loss must be a function": (network(), "mse", (X, y)),
        "rows must be inputs and targets of one length": (network(), loss, (X, y[:-1])),
        "rows must contain tensors or arrays": (network(), loss, ([1.0], y)),
        "rows must be a tuple of tensors, or a data set": (network(), loss, 3),
        "rows is empty": (network(), loss, (X[:0], y[:0])),
        "no parameter that requires a gradient": (torch.nn.Tanh(), loss, (X, y)),
        "must be all float32 or all float64": (network(torch.bfloat16), loss, (X, y)),
    }.items():
        with pytest.raises((TypeError, ValueError), match=words):
            problems.torch(*arguments)
    with pytest.raises(ValueError, match="reduction must be"):
        problems.torch(network(), loss, (X, y), reduction="none")
    with pytest.raises(ValueError, match="seed must be"):
        problems.torch(network(), loss, (X, y), seed=-1)


def test_a_loss_of_many_numbers_is_named():
    def each(output, target):
        return functional.cross_entropy(output, target, reduction="none")

    X, y = rows()
    with pytest.raises(GradientError, match="loss has to be one number"):
        solve(problems.torch(network(), each, (X.double(), y)), stop=1, **RUN)


@pytest.mark.parametrize("runtime", ["threads", "processes"])
@pytest.mark.parametrize("plane", [Shared(), Shared(exchange=None), Master()], ids=repr)
@pytest.mark.parametrize(
    "rule",
    [SGD(batch=32, momentum=0.9, weight_decay=0.01, clip=0.5), Adam(batch=32), SGD(batch=32)],
    ids=repr,
)
def test_several_workers_take_the_steps_of_one(rule, plane, runtime):
    run = {"rule": rule, "step": 0.02, "stop": 2, "seed": 0}
    one = solve(problem(), runtime="caller", **run).model.params
    report = solve(problem(), plane=plane, runtime=runtime, n_workers=3, **run)
    assert report.settings["barrier"] == "BSP()" and report.workers[2]["blocks"] > 0
    np.testing.assert_allclose(report.model.params, one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("trains", [True, False])
def test_a_batch_that_is_normalised_is_not_split(trains):
    X, y = rows()
    middle = torch.nn.BatchNorm1d(D, dtype=torch.float64).train(trains)
    module = torch.nn.Sequential(middle, torch.nn.Linear(D, 2, dtype=torch.float64))
    stated = problems.torch(module, functional.cross_entropy, (X.double(), y))
    run = {"rule": Adam(batch=32), "step": 0.02, "stop": 1, "runtime": "threads", "n_workers": 2}
    assert solve(stated, **run).settings["barrier"] == ("ASP()" if trains else "BSP()")


def weighed(output, target):
    return functional.cross_entropy(output, target, weight=torch.tensor([1.0, 9.0]).double())


@pytest.mark.parametrize(
    ("loss", "left_out", "drops", "barrier"),
    [
        (functional.cross_entropy, 0, 0.0, "BSP()"),
        (torch.nn.CrossEntropyLoss(), 0, 0.0, "BSP()"),
        (torch.nn.CrossEntropyLoss(torch.tensor([1.0, 9.0]).double()), 0, 0.0, "ASP()"),
        (weighed, 0, 0.0, "ASP()"),
        (functional.cross_entropy, 100, 0.0, "ASP()"),
        (functional.cross_entropy, 0, 0.5, "ASP()"),
    ],
)
def test_a_loss_that_is_no_mean_over_rows_is_not_split(loss, left_out, drops, barrier):
    X, y = rows()
    y[1 : 2 * left_out : 2] = -100  # which cross-entropies leave out
    module = torch.nn.Sequential(network(), torch.nn.Dropout(drops))
    stated = problems.torch(module, loss, (X.double(), y))
    run = {"rule": SGD(batch=400), "step": 0.02, "stop": 1, "runtime": "threads", "n_workers": 2}
    before = torch.random.get_rng_state()
    assert solve(stated, **run).settings["barrier"] == barrier
    assert drops or bool((before == torch.random.get_rng_state()).all())
