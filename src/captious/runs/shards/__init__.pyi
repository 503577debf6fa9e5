from captious.runs.shards.plan import plan_shards as plan_shards
from captious.runs.shards.scoring import ShardsFailed as ShardsFailed
from captious.runs.shards.scoring import score_shards as score_shards
