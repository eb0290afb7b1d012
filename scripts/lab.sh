#!/usr/bin/env bash
# Open JupyterLab on a notebook (default: the first). Without a display it prints the address only.
# --look NOTEBOOK refuses one that is not there, and does no more: before anything is installed.
set -u
cd "$(dirname "$0")/.." || exit 1

FIRST=notebooks/00_ranks_and_collectives.ipynb
if [ "${1:-}" = --look ]; then
    python=.venv/bin/python
    [ -x "$python" ] || python=${PYTHON:-python3}
    said=$("$python" -B -m labs.notebooks.opened "${2:-$FIRST}" 2>&1 >/dev/null)
    [ $? -eq 2 ] || exit 0 # where there is no Python that will do, the installation says so
    printf '%s\n' "$said" >&2
    exit 2
fi

notebook=$(.venv/bin/python -m labs.notebooks.opened "${1:-$FIRST}") || exit

options=()
if [ "$(uname)" != Darwin ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || [ -n "${SSH_CONNECTION:-}" ]; then
    options+=(--no-browser)
    echo "No display here: open the address that JupyterLab prints (it starts with http://127.0.0.1)."
fi
[ "$(id -u)" -eq 0 ] && options+=(--allow-root) # a container's only user
# The address that is printed opens the notebook, and the whole clone can be reached from it.
exec .venv/bin/python -m jupyterlab ${options[@]+"${options[@]}"} \
    --ServerApp.root_dir="$PWD" \
    --LabApp.default_url="/lab/tree/$notebook"
