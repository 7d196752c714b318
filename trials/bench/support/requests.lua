-- wrk's script: sends the lines of a file in turn, of method, path, authorization, content type and body, with tabs between.
-- The second argument is how many of them a load before it has sent. With a third, each connection pauses for so many milliseconds
-- on average, at random, before each call: a steady rate.
local requests, sent = {}, 0

function init(args)
  for line in io.lines(args[1]) do
    local method, path, authorization, type, body = line:match("^(.-)\t(.-)\t(.-)\t(.-)\t(.*)$")
    local headers = {
      ["Authorization"] = authorization,
      ["Accept"] = "application/json",
      ["Accept-Encoding"] = "gzip",
      ["User-Agent"] = "gatehouse-bench/1.0",
    }
    if type ~= "" then headers["Content-Type"] = type end
    if body == "" then body = nil end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
  sent = tonumber(args[2])
  local pause = tonumber(args[3])
  if pause then
    function delay() return math.random(0, math.floor(2 * pause)) end
  end
end

function request()
  sent = sent % #requests + 1
  return requests[sent]
end

function done(summary, latency)
  local errors = summary.errors
  local bad = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local result = '{"requests":%d,"bad":%d,"seconds":%f,"p50":%f,"p99":%f}\n'
  local p50, p99 = latency:percentile(50), latency:percentile(99)
  io.write(string.format(result, summary.requests, bad, summary.duration / 1e6, p50 / 1e3, p99 / 1e3))
end
