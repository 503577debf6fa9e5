"""Where METEOR's tables come from, and what is said when they cannot be had."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest_meteor import write_source

from captious.errors import InputError
from captious.meteor import resources
from captious.meteor.compile import Source, compile_tables
from captious.meteor.hashing import phrase_hash, word_hash


def compiled_files():
    return sorted(resources.cache_folder().glob("*.tables"))
