#!/bin/bash
# sbatch docs/clusters/slurm-prepare.sh task=translation task.train=[/shared/c.en,/shared/c.de] data.prepared=/shared/prepared
#
# An array of jobs, each of which encodes a shard; the last to finish merges them to the bytes of one command. The first
# learns the vocabulary, for which the others wait. A job that was killed is queued again, and continues.
#SBATCH --job-name=s2s-prepare
#SBATCH --array=1-64
#SBATCH --cpus-per-task=8
#SBATCH --requeue
#SBATCH --open-mode=append
exec "${PYTHON:-python}" -m s2s prepare "$@" shard="$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
