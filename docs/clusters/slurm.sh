#!/bin/bash
# sbatch docs/clusters/slurm.sh task=translation task.train=[corpus.en,corpus.de] run=/shared/runs/mine
#
# Any number of nodes. The job saves and queues itself again before its time is over, or when it is preempted, and the
# same command continues; a process that dies is replaced without a new job.
#SBATCH --job-name=s2s
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@300
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.log
set -u

export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=240 # seconds that a save may take; --signal above leaves 300
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
stopped=
trap 'stopped=1; kill -USR1 $step' USR1 TERM

srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m torch.distributed.run \
    --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="$SLURM_GPUS_ON_NODE" --max-restarts=3 \
    --rdzv-backend=c10d --rdzv-endpoint="$head:$((20000 + SLURM_JOB_ID % 20000))" \
    --rdzv-id="$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}" \
    --signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 \
    -m s2s.cli.train "$@" &
step=$!

wait $step
code=$?
while kill -0 $step 2>/dev/null; do # a signal ends `wait`, not the step
    wait $step
    code=$?
done
if [ -n "$stopped" ] && [ "$code" -ne 0 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
