"""RELIC's tables 1 to 4: LIC_M, its sd, LIC_D, its sd, by captioner and classifier."""

from __future__ import annotations

CLASSIFIERS = ("lstm", "bert-ft", "bert-pre")

TABLES: dict[str, dict[str, dict[str, tuple[float, float, float, float]]]] = {
    "1 gender": {
        "sat": {"lstm": (45.7, 1.6, 39.3, 1.0), "bert-ft": (48.6, 1.0, 47.5, 1.3), "bert-pre": (39.4, 1.0, 35.9, 0.7)},
        "oscar": {
            "lstm": (49.0, 1.4, 39.3, 0.9),
            "bert-ft": (52.4, 1.6, 47.7, 1.3),
            "bert-pre": (40.8, 1.1, 35.1, 0.6),
        },
        "nic_plus": {
            "lstm": (46.8, 1.6, 39.4, 0.8),
            "bert-ft": (49.9, 2.2, 47.7, 1.2),
            "bert-pre": (39.1, 1.5, 35.0, 0.6),
        },
        "nic_equalizer": {
            "lstm": (51.5, 1.5, 39.4, 0.9),
            "bert-ft": (54.6, 1.5, 47.6, 1.4),
            "bert-pre": (39.9, 1.5, 35.1, 0.6),
        },
    },
    "2 race": {
        "sat": {"lstm": (32.4, 1.9, 26.8, 0.8), "bert-ft": (37.0, 2.0, 36.5, 1.1), "bert-pre": (28.9, 1.8, 28.6, 0.7)},
        "oscar": {
            "lstm": (33.1, 1.8, 27.2, 1.2),
            "bert-ft": (39.0, 2.1, 36.7, 1.2),
            "bert-pre": (30.2, 2.8, 28.6, 1.0),
        },
    },
    "3 age": {
        "sat": {"lstm": (48.5, 1.4, 42.2, 1.3), "bert-ft": (52.1, 1.9, 48.0, 1.4), "bert-pre": (37.0, 1.4, 33.3, 0.5)},
        "oscar": {
            "lstm": (52.9, 1.9, 43.6, 4.1),
            "bert-ft": (55.9, 2.0, 48.1, 0.8),
            "bert-pre": (39.6, 1.8, 33.4, 0.9),
        },
        "nic_plus": {
            "lstm": (43.0, 1.6, 42.1, 1.0),
            "bert-ft": (46.6, 1.7, 47.5, 1.1),
            "bert-pre": (35.1, 1.1, 32.9, 1.6),
        },
        "nic_equalizer": {
            "lstm": (43.3, 1.5, 42.0, 1.1),
            "bert-ft": (46.7, 1.6, 47.9, 1.1),
            "bert-pre": (34.8, 1.8, 33.0, 0.9),
        },
    },
    "4 age, human words": {
        "sat": {"lstm": (48.7, 1.8, 43.2, 1.1), "bert-ft": (51.7, 1.5, 48.9, 1.3), "bert-pre": (37.0, 1.4, 33.2, 0.8)},
        "oscar": {
            "lstm": (53.3, 1.7, 43.2, 1.0),
            "bert-ft": (55.9, 2.0, 50.3, 2.0),
            "bert-pre": (39.6, 1.8, 33.5, 0.8),
        },
        "nic_plus": {
            "lstm": (43.1, 1.5, 43.3, 1.1),
            "bert-ft": (46.6, 1.7, 48.9, 1.2),
            "bert-pre": (35.5, 1.1, 33.3, 0.7),
        },
        "nic_equalizer": {
            "lstm": (43.2, 1.6, 43.0, 1.1),
            "bert-ft": (46.7, 1.6, 48.8, 1.3),
            "bert-pre": (34.8, 1.8, 33.3, 0.8),
        },
    },
}
