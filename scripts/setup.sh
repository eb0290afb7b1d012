#!/usr/bin/env bash
# Make .venv and install the course in it. Does nothing when that is already done.
#
# Done means: .venv was made in this folder from these versions of pyproject.toml and
# constraints.txt. Contents decide, not file times, which every checkout changes. A moved checkout
# gets a new .venv, because a virtual environment holds its own place.
#
# PYTHON=...       the interpreter to use (else the first of python3, python3.13 ... that will do)
# LABS_NEED_MB=... free disk space to ask for
# pip's own variables (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, ...) are obeyed as always.
set -u
cd "$(dirname "$0")/.." || exit 1

OLDEST=3.11 NEWEST=3.13 # as pyproject.toml says
VENV=.venv
STAMP=$VENV/labs-stamp

stamp() { pwd; cksum pyproject.toml constraints.txt; }
stop() { printf '\n%s\n' "$@" >&2; exit 1; }
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
will_do() { [ "${1%%.*}" -eq 3 ] && [ "${1#*.}" -ge "${OLDEST#*.}" ] && [ "${1#*.}" -le "${NEWEST#*.}" ]; }

[ "${1:-}" = --stamp ] && { stamp; exit; }
if [ -x "$VENV/bin/python" ] && [ -f "$STAMP" ] && [ "$(stamp)" = "$(cat "$STAMP")" ]; then
    # Done. Who names another Python than .venv has is told that it is not taken.
    if [ -n "${PYTHON:-}" ] && has=$(version_of "$VENV/bin/python") && [ "$(version_of "$PYTHON")" != "$has" ]; then
        echo ".venv is there, with Python $has; PYTHON=$PYTHON is not used. To change it: make clean first." >&2
    fi
    exit 0
fi

# An interpreter that will do.
if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null || stop \
        "PYTHON=$PYTHON was not found. Give the name or path of a Python $OLDEST to $NEWEST."
    version=$(version_of "$PYTHON") && [ -n "$version" ] || stop \
        "PYTHON=$PYTHON does not run as a Python. Give the name or path of a Python $OLDEST to $NEWEST."
else
    version=none
    for PYTHON in python3 python3.13 python3.12 python3.11; do
        found=$(version_of "$PYTHON") || continue
        [ "$version" = none ] && version=$found
        will_do "$found" && { version=$found; break; }
    done
    [ "$version" = none ] && stop "No python3 was found. Install Python $OLDEST to $NEWEST."
fi
will_do "$version" || stop \
    "The Python found here is $version; the course needs $OLDEST to $NEWEST." \
    "Install one, or name one that is there: make setup PYTHON=python3.12"

for module in venv ensurepip; do
    "$PYTHON" -c "import $module" 2>/dev/null || stop \
        "$PYTHON ($version) lacks the module $module, which makes virtual environments." \
        "On Debian and Ubuntu: sudo apt install python3-venv (or python$version-venv)."
done

# On Linux the index's own torch brings the CUDA libraries along: 5.2 GB installed, and the packages
# themselves lie beside that while pip unpacks them.
# Who names another source of packages to pip, or has a Mac, gets a build of 1.4 GB.
need=2500
[ "$(uname)" = Linux ] && [ -z "${PIP_EXTRA_INDEX_URL:-}${PIP_INDEX_URL:-}${PIP_FIND_LINKS:-}" ] && need=8000
need=${LABS_NEED_MB:-$need}
free=$(( $(df -Pk . | awk 'NR == 2 { print $4 }') / 1024 ))
[ "$free" -ge "$need" ] || stop \
    "The course needs $need MB here and $free MB are free. Make room, or clone to another disk."

# pip asks a rustc that it finds for its version, and one of rustup's begins a ~/.rustup to answer.
[ -e "${RUSTUP_HOME:-${HOME:-}/.rustup}" ] || export RUSTUP_HOME="$PWD/$VENV/rustup"

# Install, in one run of pip's resolver, so that no package can pull in another torch first.
if [ ! -x "$VENV/bin/python" ] || [ "$(head -n 1 "$STAMP" 2>/dev/null)" != "$(pwd)" ]; then
    echo "Creating .venv with $PYTHON ($version)"
    "$PYTHON" -m venv --clear "$VENV" || stop "The virtual environment could not be made (see above)."
fi
rm -f "$STAMP"
echo "Installing the course and the versions it was tested with (torch is the large one)"
log=$VENV/setup.log
"$VENV/bin/python" -m pip install --no-input --disable-pip-version-check --progress-bar off \
    -c constraints.txt -e '.[test]' 2>&1 | tee "$log" | grep --line-buffered -v 'already satisfied'
if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    if grep -qi 'no space left' "$log"; then
        stop "The disk filled up while pip installed. Make room here and in ${TMPDIR:-/tmp}," \
            "or let pip unpack elsewhere: TMPDIR=/a/larger/disk make setup"
    elif grep -q 'No matching distribution found for torch' "$log"; then
        stop "There is no torch for this Python ($version) on this machine in the package index." \
            "Python $OLDEST to $NEWEST on Linux or macOS have one."
    elif grep -qiE 'connection|timed out|temporary failure|name resolution' "$log"; then
        stop "pip could not reach the package index. Check the network or the proxy and run this again."
    fi
    stop "pip could not install the course; its last words stand above, all of them in $log."
fi

# JupyterLab would ask each new user about news; that question has no place in a course. And it would
# look for language servers, which the course does not use, with programs that write into ~/.npm.
mkdir -p "$VENV/etc/jupyter/labconfig"
echo '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}' \
    > "$VENV/etc/jupyter/labconfig/page_config.json"
echo '{"LanguageServerManager": {"autodetect": false}}' \
    > "$VENV/etc/jupyter/jupyter_server_config.json"

# Each rank imports the course after its fork. Where Python is told to keep no bytecode, as in many
# containers, each would compile it again, each time.
"$VENV/bin/python" -m compileall -q labs $([ -d solutions ] && echo solutions) # a release has no answers

stamp > "$STAMP"
echo "Ready: $(du -sh "$VENV" | cut -f1) in .venv"
