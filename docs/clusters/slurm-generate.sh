#!/bin/bash
# sbatch docs/clusters/slurm-generate.sh run=/shared/runs/mine input=/shared/in.txt output=/shared/out.txt
#
# An array of jobs, each of which does a part; the last to finish joins them. A part that was killed is continued.
#SBATCH --job-name=s2s-generate
#SBATCH --array=1-64
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --requeue
#SBATCH --open-mode=append
exec "${PYTHON:-python}" -m s2s generate "$@" shard="$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
