BEGIN TRANSACTION;
CREATE TABLE decision (
    run TEXT NOT NULL REFERENCES run,
    round INTEGER NOT NULL,
    proposal INTEGER NOT NULL REFERENCES proposal,
    action TEXT NOT NULL CHECK (action IN ('measure', 'skip', 'reject')),
    reason TEXT NOT NULL,
    score REAL NOT NULL,
    numbers TEXT NOT NULL,
    PRIMARY KEY (proposal, round)
) STRICT;
INSERT INTO "decision" VALUES('r-002c0f',0,1,'measure','there is no forecaster: everything is measured',0.0,'{"order":0.0}');
INSERT INTO "decision" VALUES('r-002c0f',0,2,'measure','there is no forecaster: everything is measured',0.0,'{"order":1.0}');
INSERT INTO "decision" VALUES('r-002c0f',0,3,'skip','no further measurement is due',0.0,'{}');
INSERT INTO "decision" VALUES('r-002c0f',0,4,'skip','no further measurement is due',0.0,'{}');
INSERT INTO "decision" VALUES('r-002c0f',0,5,'skip','no further measurement is due',0.0,'{}');
INSERT INTO "decision" VALUES('r-002c0f',0,6,'skip','no further measurement is due',0.0,'{}');
INSERT INTO "decision" VALUES('r-002c0f',0,7,'skip','no further measurement is due',0.0,'{}');
INSERT INTO "decision" VALUES('r-002c0f',0,8,'skip','no further measurement is due',0.0,'{}');
CREATE TABLE event (
    run TEXT NOT NULL REFERENCES run,
    seq INTEGER NOT NULL,
    time TEXT NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;
INSERT INTO "event" VALUES('r-002c0f',1,'2026-11-28T00:28:58.011+00:00','RunStarted','{"run":"r-002c0f","task":"toy","target":"synthetic-1","proposer":"pool","forecaster":"","budget":{"measurements":2,"device_s":null,"dollars":null,"tokens":null,"wall_s":null}}');
INSERT INTO "event" VALUES('r-002c0f',2,'2026-11-28T00:28:58.025+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed","position":0,"language":"cpp","tunables":{"TILE":64,"UNROLL":16,"WIDTH":1,"UNUSED":1},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',3,'2026-11-28T00:28:58.025+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0","position":1,"language":"cpp","tunables":{"TILE":16,"UNROLL":2,"WIDTH":4,"UNUSED":1},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',4,'2026-11-28T00:28:58.025+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"c7733e2561e135cdef75f80068632a1b533f946532625ca2848c50001e643d0b","position":2,"language":"cpp","tunables":{"TILE":256,"UNROLL":1,"WIDTH":4,"UNUSED":1},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',5,'2026-11-28T00:28:58.026+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"c7486fd215c886c9a32cfc9cf5ce51400f67c846458e3993bb71c071588eaf8e","position":3,"language":"cpp","tunables":{"TILE":256,"UNROLL":8,"WIDTH":2,"UNUSED":1},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',6,'2026-11-28T00:28:58.026+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"a3ee05ce5b81ba8ea83efaad0b319f571c1531b66547c037f63adab067c3a1ca","position":4,"language":"cpp","tunables":{"TILE":16,"UNROLL":1,"WIDTH":1,"UNUSED":0},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',7,'2026-11-28T00:28:58.026+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"acc8afa1a571973ae2579a159c1df410f96b56c3a0247a92d89f4bdacd778323","position":5,"language":"cpp","tunables":{"TILE":128,"UNROLL":16,"WIDTH":1,"UNUSED":0},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',8,'2026-11-28T00:28:58.026+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"208a3cd5881366c01f3ef1c69ae77ece7aa524b86cdfb4e9353d9b450b1a6209","position":6,"language":"cpp","tunables":{"TILE":32,"UNROLL":16,"WIDTH":8,"UNUSED":1},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',9,'2026-11-28T00:28:58.026+00:00','Proposed','{"run":"r-002c0f","round":0,"kernel":"bace4c4cb434bd63eb2e9f1eba01654d883e86488bca948f80195a1f944d241a","position":7,"language":"cpp","tunables":{"TILE":512,"UNROLL":2,"WIDTH":1,"UNUSED":1},"proposer":"pool","parent":"","note":"","mate":"","operator":""}');
INSERT INTO "event" VALUES('r-002c0f',10,'2026-11-28T00:28:58.052+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',11,'2026-11-28T00:28:58.052+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',12,'2026-11-28T00:28:58.052+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"c7733e2561e135cdef75f80068632a1b533f946532625ca2848c50001e643d0b","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',13,'2026-11-28T00:28:58.053+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"c7486fd215c886c9a32cfc9cf5ce51400f67c846458e3993bb71c071588eaf8e","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',14,'2026-11-28T00:28:58.053+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"a3ee05ce5b81ba8ea83efaad0b319f571c1531b66547c037f63adab067c3a1ca","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',15,'2026-11-28T00:28:58.053+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"acc8afa1a571973ae2579a159c1df410f96b56c3a0247a92d89f4bdacd778323","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',16,'2026-11-28T00:28:58.053+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"208a3cd5881366c01f3ef1c69ae77ece7aa524b86cdfb4e9353d9b450b1a6209","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',17,'2026-11-28T00:28:58.053+00:00','Accepted','{"run":"r-002c0f","round":0,"kernel":"bace4c4cb434bd63eb2e9f1eba01654d883e86488bca948f80195a1f944d241a","seconds":0.01}');
INSERT INTO "event" VALUES('r-002c0f',18,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed","decision":{"action":"measure","reason":"there is no forecaster: everything is measured","score":0.0,"numbers":{"order":0.0}}}');
INSERT INTO "event" VALUES('r-002c0f',19,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0","decision":{"action":"measure","reason":"there is no forecaster: everything is measured","score":0.0,"numbers":{"order":1.0}}}');
INSERT INTO "event" VALUES('r-002c0f',20,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"c7733e2561e135cdef75f80068632a1b533f946532625ca2848c50001e643d0b","decision":{"action":"skip","reason":"no further measurement is due","score":0.0,"numbers":{}}}');
INSERT INTO "event" VALUES('r-002c0f',21,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"c7486fd215c886c9a32cfc9cf5ce51400f67c846458e3993bb71c071588eaf8e","decision":{"action":"skip","reason":"no further measurement is due","score":0.0,"numbers":{}}}');
INSERT INTO "event" VALUES('r-002c0f',22,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"a3ee05ce5b81ba8ea83efaad0b319f571c1531b66547c037f63adab067c3a1ca","decision":{"action":"skip","reason":"no further measurement is due","score":0.0,"numbers":{}}}');
INSERT INTO "event" VALUES('r-002c0f',23,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"acc8afa1a571973ae2579a159c1df410f96b56c3a0247a92d89f4bdacd778323","decision":{"action":"skip","reason":"no further measurement is due","score":0.0,"numbers":{}}}');
INSERT INTO "event" VALUES('r-002c0f',24,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"208a3cd5881366c01f3ef1c69ae77ece7aa524b86cdfb4e9353d9b450b1a6209","decision":{"action":"skip","reason":"no further measurement is due","score":0.0,"numbers":{}}}');
INSERT INTO "event" VALUES('r-002c0f',25,'2026-11-28T00:28:58.054+00:00','Decided','{"run":"r-002c0f","round":0,"kernel":"bace4c4cb434bd63eb2e9f1eba01654d883e86488bca948f80195a1f944d241a","decision":{"action":"skip","reason":"no further measurement is due","score":0.0,"numbers":{}}}');
INSERT INTO "event" VALUES('r-002c0f',26,'2026-11-28T00:28:58.055+00:00','Measuring','{"run":"r-002c0f","round":0,"kernel":"8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed","measurement":1,"purpose":"candidate"}');
INSERT INTO "event" VALUES('r-002c0f',27,'2026-11-28T00:28:58.056+00:00','Measured','{"run":"r-002c0f","round":0,"kernel":"8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed","measurement":1,"purpose":"candidate","status":"ok","verdict":"tie","speedup":1.0201630005239755,"low":0.9895581105082562,"high":1.0507678905396947,"best":1.0201630005239755,"spend":{"measurements":1,"device_s":0.5,"dollars":0.0,"tokens":0,"wall_s":0.04412652100018022}}');
INSERT INTO "event" VALUES('r-002c0f',28,'2026-11-28T00:28:58.056+00:00','BudgetWarning','{"run":"r-002c0f","currency":"measurements","spent":1,"cap":2,"share":0.5}');
INSERT INTO "event" VALUES('r-002c0f',29,'2026-11-28T00:28:58.056+00:00','Measuring','{"run":"r-002c0f","round":0,"kernel":"4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0","measurement":2,"purpose":"candidate"}');
INSERT INTO "event" VALUES('r-002c0f',30,'2026-11-28T00:28:58.072+00:00','Measured','{"run":"r-002c0f","round":0,"kernel":"4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0","measurement":2,"purpose":"candidate","status":"ok","verdict":"slower","speedup":0.5373408232612409,"low":0.5212205985634036,"high":0.5534610479590781,"best":1.0201630005239755,"spend":{"measurements":2,"device_s":1.0,"dollars":0.0,"tokens":0,"wall_s":0.06109751400026653}}');
INSERT INTO "event" VALUES('r-002c0f',31,'2026-11-28T00:28:58.072+00:00','BudgetWarning','{"run":"r-002c0f","currency":"measurements","spent":2,"cap":2,"share":0.8}');
INSERT INTO "event" VALUES('r-002c0f',32,'2026-11-28T00:28:58.075+00:00','RunFinished','{"run":"r-002c0f","status":"finished","reason":"the budget of 2 measurements is spent","best":1.0201630005239755,"spend":{"measurements":2,"device_s":1.0,"dollars":0.0,"tokens":0,"wall_s":0.06411746499998117}}');
CREATE TABLE forecast (
    run TEXT NOT NULL REFERENCES run,
    round INTEGER NOT NULL,
    proposal INTEGER NOT NULL REFERENCES proposal,
    forecaster TEXT NOT NULL,
    p_valid REAL NOT NULL,
    p_faster REAL NOT NULL,
    median REAL NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (proposal, round)
) STRICT;
CREATE TABLE holdout (
    run TEXT NOT NULL REFERENCES run,
    kernel TEXT NOT NULL REFERENCES kernel,
    data TEXT NOT NULL,
    PRIMARY KEY (run, kernel)
) STRICT;
CREATE TABLE kernel (
    sha256 TEXT PRIMARY KEY,
    language TEXT NOT NULL CHECK (language IN ('cpp', 'triton', 'cuda', 'python')),
    source TEXT NOT NULL,
    tunables TEXT NOT NULL
) STRICT;
INSERT INTO "kernel" VALUES('8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":64,"UNROLL":16,"WIDTH":1,"UNUSED":1}');
INSERT INTO "kernel" VALUES('4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":16,"UNROLL":2,"WIDTH":4,"UNUSED":1}');
INSERT INTO "kernel" VALUES('c7733e2561e135cdef75f80068632a1b533f946532625ca2848c50001e643d0b','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":256,"UNROLL":1,"WIDTH":4,"UNUSED":1}');
INSERT INTO "kernel" VALUES('c7486fd215c886c9a32cfc9cf5ce51400f67c846458e3993bb71c071588eaf8e','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":256,"UNROLL":8,"WIDTH":2,"UNUSED":1}');
INSERT INTO "kernel" VALUES('a3ee05ce5b81ba8ea83efaad0b319f571c1531b66547c037f63adab067c3a1ca','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":16,"UNROLL":1,"WIDTH":1,"UNUSED":0}');
INSERT INTO "kernel" VALUES('acc8afa1a571973ae2579a159c1df410f96b56c3a0247a92d89f4bdacd778323','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":128,"UNROLL":16,"WIDTH":1,"UNUSED":0}');
INSERT INTO "kernel" VALUES('208a3cd5881366c01f3ef1c69ae77ece7aa524b86cdfb4e9353d9b450b1a6209','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":32,"UNROLL":16,"WIDTH":8,"UNUSED":1}');
INSERT INTO "kernel" VALUES('bace4c4cb434bd63eb2e9f1eba01654d883e86488bca948f80195a1f944d241a','cpp','/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
','{"TILE":512,"UNROLL":2,"WIDTH":1,"UNUSED":1}');
CREATE TABLE "measurement" (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT REFERENCES run,
    proposal INTEGER REFERENCES proposal,
    purpose TEXT NOT NULL CHECK (purpose IN ('candidate', 'confirm', 'direct')),
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    kernel TEXT NOT NULL REFERENCES kernel,
    anchor TEXT NOT NULL DEFAULT 'reference',
    state TEXT NOT NULL CHECK (state IN ('started', 'done')),
    started TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL,
    status TEXT CHECK (status IN
        ('ok', 'compile_error', 'incorrect', 'runtime_error', 'timeout', 'crashed', 'out_of_memory')),
    verdict TEXT CHECK (verdict IN ('faster', 'slower', 'tie', 'inconclusive', 'ambiguous', 'incorrect', 'failed',
        'suspicious', 'impossible')),
    speedup REAL CHECK (speedup > 0),
    low REAL,
    high REAL,
    device_s REAL CHECK (device_s >= 0),
    build TEXT,
    data TEXT,
    samples BLOB,
    CHECK ((state = 'done') = (status IS NOT NULL)),
    CHECK ((state = 'done') = (verdict IS NOT NULL)),
    CHECK ((state = 'done') = (data IS NOT NULL)),
    CHECK ((state = 'done') = (build IS NOT NULL)),
    CHECK ((coalesce(status, '') = 'ok') = (speedup IS NOT NULL)),
    CHECK ((low IS NULL) = (high IS NULL)),
    CHECK (low IS NULL OR speedup IS NOT NULL),
    CHECK (samples IS NULL OR state = 'done'),
    CHECK (run IS NULL OR anchor = 'reference')
) STRICT;
INSERT INTO "measurement" VALUES(1,'r-002c0f',1,'candidate','27cc2fd5945add4b4dbf1a7edffa66d58796202ca2035300ac3deec363ce6d2f','synthetic-1','8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed','reference','done','2026-11-28T00:28:58.055+00:00','2026-11-28T00:28:58.055480+00:00','0.1.0','ok','tie',1.0201630005239754606e+00,9.89558110508256150161e-01,1.05076789053969466003e+00,0.5,'{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"9d4405ee9cb965b9d09a029a618c2b6876d5810196e1431973b30c632309c8a8","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','{"status":"ok","verdict":"tie","device":"synthetic-1","tier":"T0","anchor":"reference","speedup":1.0201630005239755,"low":0.9895581105082562,"high":1.0507678905396947,"workloads":[{"workload":"small","speedup":1.0201630005239755,"low":0.9895581105082562,"high":1.0507678905396947,"candidate_median_s":0.9802355108804972,"anchor_median_s":1.0,"error_ratio":0.1,"verdict":"inconclusive","decisive_low":null,"decisive_high":null,"looks":1,"mode":"call","control":null,"warm":null,"cycles":null,"launched":null,"session_sd":0.0}],"phases":{},"device_s":0.5,"log":"","protections":[],"environment":{},"source":"replay","checks":[],"flags":[],"conditions":{},"stopped_early":false,"lifting":""}',NULL);
INSERT INTO "measurement" VALUES(2,'r-002c0f',2,'candidate','27cc2fd5945add4b4dbf1a7edffa66d58796202ca2035300ac3deec363ce6d2f','synthetic-1','4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0','reference','done','2026-11-28T00:28:58.056+00:00','2026-11-28T00:28:58.072508+00:00','0.1.0','ok','slower',5.37340823261240885244e-01,5.21220598563403636482e-01,5.53461047959078134006e-01,0.5,'{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"7ab52471d682601da26dcc1e12c3907ae20b757ae13d95ef216e7f1a93f8d491","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','{"status":"ok","verdict":"slower","device":"synthetic-1","tier":"T0","anchor":"reference","speedup":0.5373408232612409,"low":0.5212205985634036,"high":0.5534610479590781,"workloads":[{"workload":"small","speedup":0.5373408232612409,"low":0.5212205985634036,"high":0.5534610479590781,"candidate_median_s":1.8610162427838215,"anchor_median_s":1.0,"error_ratio":0.1,"verdict":"inconclusive","decisive_low":null,"decisive_high":null,"looks":1,"mode":"call","control":null,"warm":null,"cycles":null,"launched":null,"session_sd":0.0}],"phases":{},"device_s":0.5,"log":"","protections":[],"environment":{},"source":"replay","checks":[],"flags":[],"conditions":{},"stopped_early":false,"lifting":""}',NULL);
CREATE TABLE migration (name TEXT PRIMARY KEY, time TEXT NOT NULL) STRICT;
INSERT INTO "migration" VALUES('m0001_tables','2026-11-28T00:28:57.955781+00:00');
INSERT INTO "migration" VALUES('m0002_views_and_guards','2026-11-28T00:28:57.956020+00:00');
INSERT INTO "migration" VALUES('m0003_anchor','2026-11-28T00:28:57.969710+00:00');
INSERT INTO "migration" VALUES('m0004_lineage','2026-11-28T00:28:57.970427+00:00');
INSERT INTO "migration" VALUES('m0005_plans','2026-11-28T00:28:57.970656+00:00');
CREATE TABLE proposal (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL REFERENCES run,
    round INTEGER NOT NULL CHECK (round >= 0),
    position INTEGER NOT NULL CHECK (position >= 0),
    kernel TEXT NOT NULL REFERENCES kernel,
    proposer TEXT NOT NULL,
    parent TEXT NOT NULL DEFAULT '',
    note TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT 'pending'
        CHECK (outcome IN ('pending', 'passed', 'malformed', 'duplicate', 'same_code', 'compile_error')),
    reason TEXT NOT NULL DEFAULT '',
    build TEXT, mate TEXT NOT NULL DEFAULT '', operator TEXT NOT NULL DEFAULT '', cost TEXT NOT NULL DEFAULT '{}', plan TEXT,
    UNIQUE (run, round, position),
    CHECK (outcome <> 'passed' OR build IS NOT NULL)
) STRICT;
INSERT INTO "proposal" VALUES(1,'r-002c0f',0,0,'8074688e67d8b10227db8085491f545aab429535d3ab3dc43c791cbd13fbaeed','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"9d4405ee9cb965b9d09a029a618c2b6876d5810196e1431973b30c632309c8a8","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(2,'r-002c0f',0,1,'4379d33177a1c7feb4c808fc1d4a9b03583c4c4f0c2d6c534766f4ea06d912e0','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"7ab52471d682601da26dcc1e12c3907ae20b757ae13d95ef216e7f1a93f8d491","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(3,'r-002c0f',0,2,'c7733e2561e135cdef75f80068632a1b533f946532625ca2848c50001e643d0b','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"15c649726b10235849930fe3bcf5152ebf9d71e0f66edd858042b1b445169683","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(4,'r-002c0f',0,3,'c7486fd215c886c9a32cfc9cf5ce51400f67c846458e3993bb71c071588eaf8e','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"6e25def27e87d5453a47a734e31a905f1307392e87ffeff1780e20fb7e2a8a6c","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(5,'r-002c0f',0,4,'a3ee05ce5b81ba8ea83efaad0b319f571c1531b66547c037f63adab067c3a1ca','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"b9057b8ad5ecdabfdcb65219bd8e7957b1dc7dd0d6bdb6b4a68e20326d14187b","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(6,'r-002c0f',0,5,'acc8afa1a571973ae2579a159c1df410f96b56c3a0247a92d89f4bdacd778323','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"7c9cabc14e7d51daf8272aef8566adc752764cb6d61325e4aec8105a9db10b3e","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(7,'r-002c0f',0,6,'208a3cd5881366c01f3ef1c69ae77ece7aa524b86cdfb4e9353d9b450b1a6209','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"5ab6d31c1efbc78adaf2557d6f08b9a910faddd7fb58c551fe260d92a7f5d0dc","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
INSERT INTO "proposal" VALUES(8,'r-002c0f',0,7,'bace4c4cb434bd63eb2e9f1eba01654d883e86488bca948f80195a1f944d241a','pool','','','passed','','{"status":"ok","seconds":0.01,"log":"","artefact":"","binary_sha256":"92a665bffd0da16a8ac914883992c87dbb144ea70ebd9353a42a89a5270068a9","cached":true,"evidence":{"facts":{},"problems":[]},"pending":false}','','','{"seconds":0.0,"input_tokens":0,"output_tokens":0,"dollars":0.0}',NULL);
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    task_data TEXT NOT NULL,
    target_data TEXT NOT NULL,
    settings TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
    reason TEXT NOT NULL DEFAULT '',
    created TEXT NOT NULL,
    finished TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL,
    environment TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT ''
) STRICT;
INSERT INTO "run" VALUES('r-002c0f','27cc2fd5945add4b4dbf1a7edffa66d58796202ca2035300ac3deec363ce6d2f','synthetic-1','{"name":"toy","title":"toy","reference":"class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n","workloads":{"cpu":[{"name":"default","constants":{}}],"cuda":[{"name":"default","constants":{}}]},"tolerance":null,"seeds":[],"format":"kernelbench","files":{},"perturb":true,"family":"","mode":"train","allow_tf32":false,"gradients":null}','{"name":"synthetic-1","kind":"cpu","arch":"none","processors":4,"memory_bandwidth":null,"fp32_flops":null,"tensor_flops":null,"l2_bytes":null,"shared_bytes":null,"memory_bytes":null,"source":"tests"}','{"seed":0,"budget":{"measurements":2,"device_s":null,"dollars":null,"tokens":null,"wall_s":null},"proposals_per_round":8,"measure_per_round":1,"audit":0.05,"audit_budget":0.1,"explore":3,"unsure_weight":0.0,"reconsider":64,"min_improvement":0.003,"patience":6,"reach":0.97,"early_stop":true,"confirm":true,"holdout":true,"compile_threads":2,"plans":0,"proposer":"pool","forecaster":""}','finished','the budget of 2 measurements is spent','2026-11-28T00:28:58.009+00:00','2026-11-28T00:28:58.075+00:00','0.1.0','{"python":"3.11.7","platform":"Linux-6.18-x86_64-with-glibc2.36"}','');
CREATE TABLE signature (
    task TEXT NOT NULL REFERENCES task,
    target TEXT NOT NULL REFERENCES target,
    data TEXT NOT NULL,
    PRIMARY KEY (task, target)
) STRICT;
INSERT INTO "signature" VALUES('27cc2fd5945add4b4dbf1a7edffa66d58796202ca2035300ac3deec363ce6d2f','synthetic-1','[{"workload":"default","inputs":[{"name":"x","shape":[16],"dtype":"float32"}],"scalars":{},"init":{},"params":[],"outputs":[{"name":"y","shape":[16],"dtype":"float32"}],"flops":32.0,"bytes_moved":128,"written":[],"aliases":{},"needed_flops":0.0,"state":[],"random":false,"operations":[],"backward":null}]');
CREATE TABLE spend (
    id INTEGER PRIMARY KEY,
    run TEXT REFERENCES run,
    kind TEXT NOT NULL CHECK (kind IN ('measurement', 'device_s', 'dollars', 'tokens', 'wall_s')),
    amount REAL NOT NULL CHECK (amount >= 0),
    ref TEXT NOT NULL DEFAULT '',
    time TEXT NOT NULL
) STRICT;
INSERT INTO "spend" VALUES(1,'r-002c0f','wall_s',1.30784349998975812923e-02,'session','2026-11-28T00:28:58.024+00:00');
INSERT INTO "spend" VALUES(2,'r-002c0f','wall_s',0.000844781000068906,'session','2026-11-28T00:28:58.025+00:00');
INSERT INTO "spend" VALUES(3,'r-002c0f','wall_s',2.70875210003396205138e-02,'session','2026-11-28T00:28:58.052+00:00');
INSERT INTO "spend" VALUES(4,'r-002c0f','wall_s',4.41676999798801261931e-04,'session','2026-11-28T00:28:58.052+00:00');
INSERT INTO "spend" VALUES(5,'r-002c0f','wall_s',1.5464099988093948923e-04,'session','2026-11-28T00:28:58.052+00:00');
INSERT INTO "spend" VALUES(6,'r-002c0f','wall_s',2.08831000236386898905e-04,'session','2026-11-28T00:28:58.053+00:00');
INSERT INTO "spend" VALUES(7,'r-002c0f','wall_s',1.61259999913454521447e-04,'session','2026-11-28T00:28:58.053+00:00');
INSERT INTO "spend" VALUES(8,'r-002c0f','wall_s',1.35425999815197428688e-04,'session','2026-11-28T00:28:58.053+00:00');
INSERT INTO "spend" VALUES(9,'r-002c0f','wall_s',0.000129894000110653,'session','2026-11-28T00:28:58.053+00:00');
INSERT INTO "spend" VALUES(10,'r-002c0f','wall_s',1.22078000003966735675e-04,'session','2026-11-28T00:28:58.053+00:00');
INSERT INTO "spend" VALUES(11,'r-002c0f','wall_s',4.85046999983751447871e-04,'session','2026-11-28T00:28:58.054+00:00');
INSERT INTO "spend" VALUES(12,'r-002c0f','wall_s',7.49951000216242391616e-04,'session','2026-11-28T00:28:58.054+00:00');
INSERT INTO "spend" VALUES(13,'r-002c0f','wall_s',7.14369998604524880647e-05,'session','2026-11-28T00:28:58.054+00:00');
INSERT INTO "spend" VALUES(14,'r-002c0f','measurement',1.0,'measurement 1','2026-11-28T00:28:58.055+00:00');
INSERT INTO "spend" VALUES(15,'r-002c0f','wall_s',4.55542000054265372455e-04,'session','2026-11-28T00:28:58.055+00:00');
INSERT INTO "spend" VALUES(16,'r-002c0f','device_s',0.5,'measurement 1','2026-11-28T00:28:58.055+00:00');
INSERT INTO "spend" VALUES(17,'r-002c0f','wall_s',1.28817499989963835105e-03,'session','2026-11-28T00:28:58.056+00:00');
INSERT INTO "spend" VALUES(18,'r-002c0f','wall_s',8.69700002112949732691e-05,'session','2026-11-28T00:28:58.056+00:00');
INSERT INTO "spend" VALUES(19,'r-002c0f','measurement',1.0,'measurement 2','2026-11-28T00:28:58.056+00:00');
INSERT INTO "spend" VALUES(20,'r-002c0f','wall_s',1.55958479999753762967e-02,'session','2026-11-28T00:28:58.072+00:00');
INSERT INTO "spend" VALUES(21,'r-002c0f','device_s',0.5,'measurement 2','2026-11-28T00:28:58.072+00:00');
INSERT INTO "spend" VALUES(22,'r-002c0f','wall_s',2.86206600003424682654e-03,'session','2026-11-28T00:28:58.075+00:00');
INSERT INTO "spend" VALUES(23,'r-002c0f','wall_s',1.57884999680391047149e-04,'session','2026-11-28T00:28:58.075+00:00');
CREATE TABLE target (
    name TEXT PRIMARY KEY,
    data TEXT NOT NULL
) STRICT;
INSERT INTO "target" VALUES('synthetic-1','{"name":"synthetic-1","kind":"cpu","arch":"none","processors":4,"memory_bandwidth":null,"fp32_flops":null,"tensor_flops":null,"l2_bytes":null,"shared_bytes":null,"memory_bytes":null,"source":"tests"}');
CREATE TABLE task (
    sha256 TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
INSERT INTO "task" VALUES('27cc2fd5945add4b4dbf1a7edffa66d58796202ca2035300ac3deec363ce6d2f','toy','{"name":"toy","title":"toy","reference":"class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n","workloads":{"cpu":[{"name":"default","constants":{}}],"cuda":[{"name":"default","constants":{}}]},"tolerance":null,"seeds":[],"format":"kernelbench","files":{},"perturb":true,"family":"","mode":"train","allow_tf32":false,"gradients":null}');
CREATE INDEX spend_run ON spend (run, kind);
CREATE TRIGGER spend_final BEFORE UPDATE ON spend
BEGIN SELECT raise(ABORT, 'an entry of the ledger is never changed'); END;
CREATE TRIGGER spend_kept BEFORE DELETE ON spend
BEGIN SELECT raise(ABORT, 'an entry of the ledger is never deleted'); END;
CREATE UNIQUE INDEX measurement_once ON measurement (proposal, purpose) WHERE proposal IS NOT NULL;
CREATE INDEX measurement_subject ON measurement (task, target);
CREATE INDEX measurement_run ON measurement (run);
CREATE VIEW best AS
SELECT run, task, target, kernel, id AS measurement, speedup, low, high FROM (
    SELECT *, row_number() OVER (PARTITION BY run ORDER BY verdict = 'ambiguous', speedup DESC, id) AS place
    FROM measurement
    WHERE run IS NOT NULL AND purpose = 'candidate' AND anchor = 'reference' AND status = 'ok'
        AND verdict NOT IN ('suspicious', 'impossible') AND low IS NOT NULL
) WHERE place = 1;
CREATE TRIGGER measurement_final BEFORE UPDATE ON measurement WHEN old.state = 'done'
BEGIN SELECT raise(ABORT, 'a finished measurement is never changed'); END;
CREATE TRIGGER measurement_kept BEFORE DELETE ON measurement
BEGIN SELECT raise(ABORT, 'a measurement is never deleted'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('measurement',2);
COMMIT;
