#!/usr/bin/env bash
# Starts a SLURM of one node on this machine, for the tests marked slurm. It needs root, slurm-wlm and munge.
#
# Usage: tests/slurm.sh start|stop FOLDER
# FOLDER gets the state and the logs. While SLURM runs, its configuration is /etc/slurm/slurm.conf; the script does not
# overwrite a file that is there already.
#
# Example:
#   tests/slurm.sh start /tmp/slurm
#   python -m pytest -m slurm
#   tests/slurm.sh stop /tmp/slurm
set -euo pipefail
conf=/etc/slurm/slurm.conf
[[ $# == 2 && ($1 == start || $1 == stop) ]] || { echo "usage: tests/slurm.sh start|stop FOLDER" >&2; exit 2; }
folder=$2
if [[ $1 == stop ]]; then
  [[ ! -s $folder/slurmctld.pid ]] || rm -f "$conf"
  for daemon in slurmd slurmctld munged; do
    [[ ! -s $folder/$daemon.pid ]] || kill "$(<"$folder/$daemon.pid")" || true
  done
  exit
fi
[[ ! -e $conf ]] || { echo "slurm.sh: error: $conf is there: use the SLURM it is of" >&2; exit 1; }

mkdir -p "$folder/state" "$folder/spool"
folder=$(cd "$folder" && pwd)
host=$(hostname -s)
cat >"$conf" <<END
ClusterName=test
SlurmctldHost=$host
SlurmUser=$(id -un)
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
# nothing here needs control groups, which containers seldom let one change
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName=$host CPUs=$(nproc)
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE
END
if ! munge -n >/dev/null 2>&1; then
  mkdir -p /run/munge
  chown munge: /run/munge
  runuser -u munge -- munged
  cp /run/munge/munged.pid "$folder/munged.pid"
fi
slurmctld
slurmd
for _ in {1..30}; do
  [[ $(sinfo --noheader --format=%T) != idle ]] || exit 0
  sleep 1
done
echo "slurm.sh: error: the node is not ready: see $folder/slurmctld.log and $folder/slurmd.log" >&2
exit 1
