# Sourced by npm's scripts: puts the programs of tools/ first on the PATH, and installs them if they are absent or not those of the
# lock file.
[ tools/node_modules/.package-lock.json -nt tools/package-lock.json ] ||
  npm ci --prefix tools --no-fund --no-audit --loglevel=error || return
PATH=$PWD/tools/node_modules/.bin:$PATH
