"""The paper's captioners on FlickrStyle, told the style or not: the experiment behind Table 2 of OnlyStyle's paper.

grid.py     DINOv2-S features of an image by place, where only their mean is at hand
pack.py     captions, splits, neighbours and features in one small file that travels to a GPU
data.py     that file as training pairs, and the vocabulary
models.py   UPDOWN, Multi-UPDOWN and SVinVL, each with a twin without style
decode.py   beam search; greedy is a beam of one
train.py    trains and decodes: captions and losses as JSONL
score.py    those captions under captious' metrics: Table 2, the paper's claims, and one sentence
"""
