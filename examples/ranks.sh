#!/bin/bash
#SBATCH --job-name=hogshare
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1   # a rank for each machine; its workers are threads
#SBATCH --cpus-per-task=16
#SBATCH --time=01:00:00
#
# A job script for SLURM: `sbatch examples/ranks.sh train.py`. Without a batch system, with a line
# `machine:1` for each machine in a file `hosts`:
#
#     mpiexec -f hosts -n 2 -bind-to none python -m mpi4py train.py
#
# `hogshare fit` needs ranks of one machine: there take --nodes=1 and a rank for as many cores as you
# like. What more machines gain says `srun python -m mpi4py -m hogshare bench ranks`.

set -euo pipefail

module load mpi 2>/dev/null || true # the cluster's own, if it has modules
export OMP_NUM_THREADS=1            # of BLAS: the workers have the cores

srun --cpu-bind=cores python -m hogshare doctor || true # on each machine: what is wrong with it
srun --cpu-bind=cores --kill-on-bad-exit=1 python -m mpi4py "$@"
