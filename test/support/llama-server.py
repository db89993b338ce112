# llama.cpp's own HTTP server on 127.0.0.1 and a free port: prints its address, and serves until standard input ends.
# Arguments: the model's file, the length of the context, the most tokens of a reply that asks for no limit.
import sys

import xllamacpp

path, context, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params = xllamacpp.CommonParams()
params.model.path = path
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = context
params.n_predict = most
params.n_parallel = 1
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.use_jinja = True
params.ui = False
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
