-- Raises the fence of a lock, but only for its owner, and only that of one grant.
--
-- KEYS[1]  the lock: a string `owner fence label`
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

-- Where others share the lock, it is a hash.
local value = redis.pcall('GETEX', lock)
if type(value) == 'table' then
  local holders = redis.pcall('HLEN', lock)
  if type(holders) == 'number' and holders > 0 then
    return 0
  end
  value = redis.call('GETEX', lock)
end
local holder, held_fence, label = string.match(value or '', '^(%S+) (%d+) (%S+)$')
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
if tonumber(held_fence) < tonumber(fence) then
  redis.call('SET', lock, owner .. ' ' .. fence .. ' ' .. label, 'KEEPTTL')
end
return 1
