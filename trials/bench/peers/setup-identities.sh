# Sourced by setup.sh: the identity systems and the transparency log. Keycloak needs Java 17 and Maven, the others npm and Go.

IDENTITIES=(keycloak kratos better-auth tessera)

install_keycloak() {
  local version=26.4.0 folder="$INSTALLED/keycloak"
  [ ! -e "$folder/built" ] || return 0
  rm -rf "$folder" "$folder.new"
  mkdir "$folder.new" &&
    # Maven leaves a folder where it runs.
    (cd "$folder.new" && mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack \
      "-Dartifact=org.keycloak:keycloak-quarkus-dist:$version:zip" "-DoutputDirectory=$folder.new") &&
    mv "$folder.new/keycloak-$version" "$folder" && rm -rf "$folder.new" &&
    "$folder/bin/kc.sh" build --db=postgres && touch "$folder/built"
}

# Its go.mod replaces a module that only its tests import by a folder that the published module leaves out. An empty module in
# that place is enough for the program.
install_kratos() {
  local version=v1.3.1 source="$INSTALLED/kratos-source" published
  [ ! -x "$INSTALLED/bin/kratos" ] || return 0
  published=$(cd / && go mod download -json "github.com/ory/kratos@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  [ -n "$published" ] || return 1
  rm -rf "$source"
  cp -R "$published" "$source" && chmod -R u+w "$source" && mkdir "$source/internal/client-go" &&
    printf 'module github.com/ory/client-go\n\ngo 1.23\n' >"$source/internal/client-go/go.mod" &&
    (cd "$source" && go build -o "$INSTALLED/bin/kratos" .) && rm -rf "$source"
}

install_better-auth() {
  local folder="$INSTALLED/better-auth"
  mkdir -p "$folder"
  cmp --silent better-auth/package-lock.json "$folder/package-lock.json" && [ -e "$folder/node_modules/.package-lock.json" ] && return
  cp better-auth/package.json better-auth/package-lock.json "$folder" && npm ci --prefix "$folder" --ignore-scripts --no-fund --no-audit
}

# Built each time, because Go knows itself what has changed.
install_tessera() { (cd tessera && go build -o "$INSTALLED/bin/tessera" .); }
