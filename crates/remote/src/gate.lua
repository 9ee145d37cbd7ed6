-- One step of the shared gate, atomic, on the time of this server. The arithmetic is that of patra_core::gate::Limiter.
-- KEYS: epoch, state (hash), slots (list of times), permits (sorted set by end of life)
-- ARGV: token, most, horizon, fresh wait, lateness, burst, concurrency, permit life, pause, pace change,
--       number of windows, (requests, length)*, permits handed back*
-- Answer: {0} when this is not the server the epoch began on; else {1, now, ask again at, (slot, permit)*}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return { 0 } end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local most, horizon, fresh, late = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local burst, concurrency, life = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local pause, change, count = tonumber(ARGV[9]), ARGV[10], tonumber(ARGV[11])
local windows, longest, kept = {}, 0, 1
for at = 1, count do
  local requests, per = tonumber(ARGV[10 + 2 * at]), tonumber(ARGV[11 + 2 * at]) + late
  windows[at] = { requests, per }
  longest, kept = math.max(longest, per), math.max(kept, requests)
end
for at = 12 + 2 * count, #ARGV do redis.call('ZREM', KEYS[4], ARGV[at]) end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now))

local state = redis.call('HMGET', KEYS[2], 'arrival', 'cooldown', 'pace', 'permit')
local arrival, cooldown = tonumber(state[1] or now + fresh), tonumber(state[2] or now + fresh)
local pace, permit = tonumber(state[3] or 1000), tonumber(state[4] or 1)
if change == 'slow' then pace = math.max(math.floor(pace / 2), 100) end
if change == 'fast' then pace = math.min(pace + 10, 1000) end
if pause > 0 then cooldown = math.max(cooldown, now + pause) end

local spacing = 0
for _, window in ipairs(windows) do spacing = math.max(spacing, math.floor(window[2] / window[1])) end
spacing = math.floor(spacing * 1000 / pace)
local tolerance = spacing * (burst - 1)
local running, held = redis.call('ZCARD', KEYS[4]), redis.call('LLEN', KEYS[3])
local answer = { 1, now, now }
for _ = 1, most do
  local at = math.max(now, arrival, cooldown, tonumber(redis.call('LINDEX', KEYS[3], -1) or 0))
  for _, window in ipairs(windows) do
    if held >= window[1] then
      at = math.max(at, tonumber(redis.call('LINDEX', KEYS[3], held - window[1])) + window[2])
    end
  end
  if at > now + horizon then
    answer[3] = at
    break
  end
  if running >= concurrency then
    answer[3] = now + 20000
    break
  end
  arrival = math.max(arrival, at - tolerance) + spacing
  redis.call('RPUSH', KEYS[3], string.format('%.0f', at))
  redis.call('LTRIM', KEYS[3], -kept, -1)
  held = math.min(held + 1, kept)
  redis.call('ZADD', KEYS[4], string.format('%.0f', at + life), permit)
  running = running + 1
  answer[#answer + 1] = at
  answer[#answer + 1] = permit
  permit = permit + 1
end
redis.call('HSET', KEYS[2], 'arrival', string.format('%.0f', arrival), 'cooldown', string.format('%.0f', cooldown),
  'pace', pace, 'permit', permit)
-- An idle key may be forgotten: it then begins by waiting.
local keep = math.floor((math.max(longest, life, cooldown - now) + 3600000000) / 1000)
for at = 2, 4 do redis.call('PEXPIRE', KEYS[at], keep) end
return answer
