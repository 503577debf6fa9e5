from captious.runs.shards.scoring import ShardsFailed as ShardsFailed
from captious.runs.shards.scoring import score_shards as score_shards
from captious.runs.shards.shard_plan import plan_shards as plan_shards
