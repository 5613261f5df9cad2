-- Starts the TTL of a lock anew, but only for its owner.
--
-- KEYS[1]  the lock: a string `owner fence label`, or a hash if it is shared
-- ARGV[1]  owner            ARGV[2]  TTL in ms, greater than zero
-- ARGV[3]  label, or `label#function`, or nothing to leave it as it is
-- ARGV[4]  `+` if the owner shares the lock; the label may be '' then
--
-- Returns 1 if it was the owner's, else 0.
--
-- Compare and expire must be one step: between a GET and a PEXPIRE sent by a client the lock can
-- change hands, and we would prolong a stranger's lease. It touches one key only, so that it goes
-- on working while a slot is moved between servers.
--
-- GETEX instead of GET, because it counts as a write: a replica would answer GET from data that
-- may be old, and "not yours" must come from a master.
--
-- A lease that a releaser has handed on has no label yet: its first renewal writes it, as it does for a
-- function of the same process that has got the lease since. A server out
-- of memory takes that as well, since only a script's first write can be refused, which is GETEX.
local lock, owner, ttl, label = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if ARGV[4] then
  -- A write that changes nothing: what is read must come from a master.
  local is_hash = redis.pcall('HDEL', lock, ' ')
  if type(is_hash) == 'table' then
    return type(redis.pcall('GETEX', lock)) ~= 'table' and 0 or redis.call('HDEL', lock, ' ')
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local ends, name = string.match(redis.call('HGET', lock, owner) or '', '^(%d+) (%S+)$')
  if not ends or tonumber(ends) <= now then
    return 0
  end
  local until_ms = string.format('%.0f', now + ttl)
  redis.call('HSET', lock, owner, until_ms .. ' ' .. (label ~= '' and label or name))
  -- A lease that is kept for the rest of a `min_hold` may be the first to end.
  local epoch, earliest = string.match(redis.call('HGET', lock, '!') or '', '^(%d+) (%d+)$')
  if epoch and tonumber(until_ms) < tonumber(earliest) then
    redis.call('HSET', lock, '!', epoch .. ' ' .. until_ms)
  end
  if redis.call('PTTL', lock) < tonumber(ttl) then
    redis.call('PEXPIRE', lock, ttl)
  end
  return 1
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
local fence
if label and string.sub(value, -#label - 1) ~= ' ' .. label then
  fence = string.match(value, '^%S+ (%d+) %S+$')
end
if fence then
  redis.call('SET', lock, owner .. ' ' .. fence .. ' ' .. label, 'PX', ttl)
else
  redis.call('PEXPIRE', lock, ttl)
end
return 1
