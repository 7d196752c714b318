"""What is in the wheel."""

import filecmp
import os
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent.parent


def test_the_generated_code_is_that_of_the_contract(tmp_path: Path) -> None:
    subprocess.run([HERE / "generate.sh", tmp_path / "gen"], check=True, env={**os.environ, "PYTHON": sys.executable})
    kept = HERE / "src" / "gatehouse_token_client" / "_gen"
    names = {path.name for path in kept.iterdir() if path.is_file()}
    assert {path.name for path in (tmp_path / "gen").iterdir()} == names
    assert filecmp.cmpfiles(tmp_path / "gen", kept, names, shallow=False)[1:] == ([], [])


def test_the_package_claims_no_name_of_the_contract() -> None:
    """A service that generates code from the contract could not load it beside this package."""
    program = f"""
import sys; sys.path.insert(0, {str(HERE / "src")!r})
import gatehouse_token_client
from google.protobuf import descriptor_pb2, descriptor_pool
other = descriptor_pb2.FileDescriptorProto(name="gatehouse/token/v1/principal.proto", package="gatehouse.token.v1")
other.message_type.add(name="Principal")
descriptor_pool.Default().AddSerializedFile(other.SerializeToString())
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_wheel_is_typed_and_takes_one_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(HERE)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "gatehouse_token_client/py.typed" in names
    assert "gatehouse_token_client/_gen/token_service_pb2.py" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gatehouse_token_client"}
