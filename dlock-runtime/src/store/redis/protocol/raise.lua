-- Raises the fence of a lock, but only for its owner, and only that of one grant.
--
-- KEYS[1]  the lock: a string `owner fence label`, or a hash if it is shared, whose epoch is raised
-- KEYS[2]  the last fence of the slot
-- ARGV[1]  owner            ARGV[2]  the fence it was granted with
-- ARGV[3]  what that is raised to, below 2^52
--
-- Returns 1 if it was the owner's with one of these fences, else 0. From then on whatever is granted
-- is greater than the second, and the lock's own is not less. The TTL goes on as it was.
--
-- It is one step because a fence counts only while its lock is held: raised after somebody else has
-- got the lock, it would be below, or equal to, a fence that was given meanwhile. So it would be if
-- the owner had lost the lock and got it again, which its fence tells. The last fence is written
-- before the lock's, as everywhere.
--
-- GETEX instead of GET, because it counts as a write, and "not yours" must come from a master.
local lock, last_fence, owner, from, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local value = redis.pcall('GETEX', lock)
local holder, held_fence, label, earliest
local is_shared = type(value) == 'table' and type(redis.pcall('HDEL', lock, ' ')) == 'number'
if is_shared then
  local time = redis.call('TIME')
  local ends = string.match(redis.call('HGET', lock, owner) or '', '^(%d+) ')
  if ends and tonumber(ends) > time[1] * 1000 + math.floor(time[2] / 1000) then
    holder = owner
  end
  held_fence, earliest = string.match(redis.call('HGET', lock, '!') or '', '^(%d+) (%d+)$')
else
  if type(value) == 'table' then
    value = redis.call('GETEX', lock)
  end
  holder, held_fence, label = string.match(value or '', '^(%S+) (%d+) (%S+)$')
end
if holder ~= owner or held_fence ~= from and held_fence ~= fence then
  return 0
end
local text = redis.call('GET', last_fence) or '0'
local last = tonumber(text)
if not last or last >= 2 ^ 52 or string.find(text, '%D') then
  return redis.error_reply('WRONGTYPE the fence counter at `' .. last_fence .. '` is not a valid number')
end
if last < tonumber(fence) then
  redis.call('SET', last_fence, fence)
end
if tonumber(held_fence) < tonumber(fence) and is_shared then
  redis.call('HSET', lock, '!', fence .. ' ' .. earliest)
elseif tonumber(held_fence) < tonumber(fence) then
  redis.call('SET', lock, owner .. ' ' .. fence .. ' ' .. label, 'KEEPTTL')
end
return 1
