"""Every hub id in captious without a network: one line that says what to fetch and where to put it, and no retries."""

import json
import os
import socket
import subprocess
import sys

import pytest

pytest.importorskip("huggingface_hub")
pytest.importorskip("transformers")

LOADERS = {
    "an encoder": "from captious.models.loading import load; load('some/model')",
    "an encoder to train": "from captious.models.loading import load_trainable; load_trainable('some/model')",
    "a checkpoint file": "from captious.models.loading import load; load('some/model/deep.pt')",
    "a published checkpoint": "from captious.models.loading import load; load('Xiaohud/SPECS')",
    "a language model": "from captious.models.language import load_contextual; load_contextual('some/model')",
    "a sentence encoder": "from captious.models.sentence_models import load_sentences; load_sentences('some/model')",
    "a BLEURT": "from captious.models.bleurt import load_bleurt; load_bleurt('some/model')",
    "a classifier": "from captious.bias.classifiers.bert import load_bert; load_bert('some/model')",
    "a classifier by its default": "from captious.bias.classifiers.bert import BERT, load_bert; load_bert(BERT)",
    "a matching model": "from captious.train._umic import starting_backbone; starting_backbone('some/vilt')",
    "two towers": "from captious.models.dual import new_dual; new_dual('some/model', 'some/model')",
    "a painter": "from captious.models.painters import load_painter; load_painter('some/model')",
    "a guided painter": "from captious.models.painters import load_painter; load_painter('guided:some/model')",
}
CODE = """
import json, sys
from captious.errors import InputError
from captious.models import hub
hub.TIMEOUT = 0.3
for name, code in json.loads(sys.argv[1]).items():
    try:
        exec(code)
    except InputError as error:
        print(json.dumps([name, str(error)]))
"""


@pytest.fixture(scope="module", params=["refuses", "is silent"])
def messages(request, tmp_path_factory):
    """What each loader says where the hub refuses the connection, or takes it and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            server.listen(64)
        environment = {key: value for key, value in os.environ.items() if key.upper() not in PROXIES} | {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.getsockname()[1]}",
            "HF_HOME": str(tmp_path_factory.mktemp("hub")),
            "HF_HUB_OFFLINE": "0",
            "CAPTIOUS_HOME": str(tmp_path_factory.mktemp("home")),
        }
        command = [sys.executable, "-c", CODE, json.dumps(LOADERS)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    assert "retry" not in done.stderr.lower() and "Traceback" not in done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.mark.parametrize("name", LOADERS)
def test_what_is_missing_is_said_in_one_line(messages, name):
    message = messages[name]
    if name.endswith("painter") and "not installed" in message:
        pytest.skip("diffusers is not installed")
    assert "not on this machine, and the hub cannot be reached; download " in message
    assert "put " in message and "weights" in message and "\n" not in message
