#!/usr/bin/env bash
# Open JupyterLab on a notebook (default: the first). Without a display it prints the address only.
set -u
cd "$(dirname "$0")/.." || exit 1

notebook=$(.venv/bin/python -m labs.notebooks.opened "${1:-notebooks/00_ranks_and_collectives.ipynb}") || exit

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
