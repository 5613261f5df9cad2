
-- What `release` does where holders or waiters share the lock.
local was_held = 0
if wants then
  -- A write before the read: what is read must come from a master.
  local left = redis.pcall('HDEL', lock, ' ')
  if type(left) == 'number' then
    local ends = string.match(redis.call('HGET', lock, owner) or '', '^(%d+) ')
    if ends and redis.call('HDEL', lock, owner) == 1 and tonumber(ends) > now then
      was_held = 1
    end
  elseif type(redis.pcall('GETEX', lock)) == 'table' then
    redis.call('HDEL', lock, ' ')
  end
elseif not is_shared then
  epoch = string.match(value, '^%S+ (%d+) %S+$')
  redis.call('DEL', lock)
  was_held = 1
end
for _, member in ipairs({owner, owner .. '!', owner .. (wants or ''), owner .. (wants or '') .. '!'}) do
  try('ZREM', queue, member)
  try('ZREM', living, member)
end
if is_shared and not wants then
  -- So must be that the lock is not the owner's.
  redis.call('HDEL', lock, ' ')
end

local failure = (wants or is_shared) and read_holders()
if failure then
  return was_held == 1 and 1 or failure
end
local before = state
-- An exclusive waiter that leaves lets in those behind it.
if was_held == 1 or state == 'shared' then
  grant_waiters(nil, true)
end
if was_held == 0 then
  return with_untold({0})
end
if state ~= before then
  return with_untold({2})
end
return with_untold({state == 'free' and 1 or 3})
