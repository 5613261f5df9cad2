-- Gives up a lock, and tells nobody: a release while the keys of the lock lie on two servers.
--
-- KEYS[1]  the lock: a string `owner fence label`, or a hash if it is shared
-- ARGV[1]  owner
-- ARGV[2]  `+` if the owner shares the lock
--
-- Returns 1 if the lock was the owner's, else 0.
--
-- It touches one key only, so that it works while the slot is moved. Who waits is not told, and
-- finds the lock free when it looks again.
--
-- GETEX instead of GET, because it counts as a write, and "not yours" must come from a master that
-- is in touch with the others: one that was cut off may allow to read.
local lock, owner = KEYS[1], ARGV[1]

if ARGV[2] then
  local left = redis.pcall('HDEL', lock, owner)
  if type(left) == 'table' then
    return type(redis.pcall('GETEX', lock)) ~= 'table' and 0 or redis.call('HDEL', lock, owner)
  end
  -- Somebody's hash may have one field too.
  if left == 1 and redis.call('HLEN', lock) == 1 then
    redis.call('DEL', lock)
  end
  return left
end

-- Where others share the lock, it is a hash. The write before the read, as above.
local value = redis.pcall('GETEX', lock)
if type(value) == 'table' then
  if type(redis.pcall('HDEL', lock, ' ')) == 'number' and redis.call('HGET', lock, '!') then
    return 0
  end
  value = redis.call('GETEX', lock)
end
if not value or string.sub(value, 1, #owner + 1) ~= owner .. ' ' then
  return 0
end
redis.call('DEL', lock)
return 1
