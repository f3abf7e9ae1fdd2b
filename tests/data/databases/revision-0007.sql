BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE application (
	id TEXT NOT NULL, 
	campaign TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	testbed TEXT NOT NULL, 
	section TEXT NOT NULL, 
	"plan" TEXT NOT NULL, 
	stepwise BOOLEAN NOT NULL, 
	programs TEXT NOT NULL, 
	"before" JSON NOT NULL, 
	"after" JSON NOT NULL, 
	planned DATETIME NOT NULL, 
	planned_by TEXT NOT NULL, 
	changed DATETIME NOT NULL, 
	changed_by TEXT NOT NULL, 
	asked_by TEXT, 
	CONSTRAINT pk_application PRIMARY KEY (id), 
	CONSTRAINT fk_application_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id), 
	CONSTRAINT ck_application_applicationstate CHECK (state IN ('planned', 'applying', 'committing', 'applied', 'rolling_back', 'rolled_back', 'failed'))
);
INSERT INTO "application" VALUES('a20260301-120000-8wj2','20261128-064803-d585','applied','','fileserver dafs at 192.0.2.9','{"hosts": "testbed.yaml"}','7754ced21cbc3d56f444b583be333846',0,'dafileserver OpenAFS 1.8.9, afsd.fuse openafs 1.8.9','{"cache_manager.daemons":3,"fileserver.threads":64}','{"cache_manager.daemons":5,"fileserver.threads":200}','2026-03-01 12:00:00.123456','alice','2026-03-01 12:00:00.123457','alice',NULL);
INSERT INTO "application" VALUES('a20260301-120100-smzn','20261128-064803-d585','planned','','fileserver dafs at 192.0.2.9','{"hosts": "testbed.yaml"}','7754ced21cbc3d56f444b583be333846',0,'dafileserver OpenAFS 1.8.9, afsd.fuse openafs 1.8.9','{"cache_manager.daemons":3,"fileserver.threads":64}','{"cache_manager.daemons":5,"fileserver.threads":200}','2026-03-01 12:00:00.123456','alice','2026-03-01 12:00:00.123456','alice',NULL);
CREATE TABLE block (
	campaign TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	race INTEGER NOT NULL CONSTRAINT ck_block_race CHECK (race >= 0), 
	"order" JSON NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	duration_s DOUBLE NOT NULL CONSTRAINT ck_block_duration_s CHECK (duration_s >= 0 AND duration_s < 1e9), 
	reason TEXT NOT NULL, 
	testbed TEXT, 
	batch INTEGER, 
	slot INTEGER DEFAULT '0' NOT NULL, 
	CONSTRAINT pk_block PRIMARY KEY (campaign, number), 
	CONSTRAINT ck_block_number CHECK (number >= 1), 
	CONSTRAINT fk_block_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id), 
	CONSTRAINT ck_block_blockkind CHECK (kind IN ('pilot', 'search', 'certify')), 
	CONSTRAINT ck_block_blockstate CHECK (state IN ('running', 'complete', 'void'))
);
CREATE TABLE campaign (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	spec TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	created DATETIME NOT NULL, 
	updated DATETIME NOT NULL, 
	reason TEXT NOT NULL, 
	baseline JSON, 
	wall_s DOUBLE NOT NULL CONSTRAINT ck_campaign_wall_s CHECK (wall_s >= 0 AND wall_s < 1e9), 
	testbed_s DOUBLE NOT NULL CONSTRAINT ck_campaign_testbed_s CHECK (testbed_s >= 0 AND testbed_s < 1e9), 
	apply_s DOUBLE NOT NULL CONSTRAINT ck_campaign_apply_s CHECK (apply_s >= 0 AND apply_s < 1e9), 
	workload_s DOUBLE NOT NULL CONSTRAINT ck_campaign_workload_s CHECK (workload_s >= 0 AND workload_s < 1e9), 
	CONSTRAINT pk_campaign PRIMARY KEY (id), 
	CONSTRAINT ck_campaign_campaignstate CHECK (state IN ('created', 'running', 'paused', 'finished', 'failed', 'cancelled'))
);
INSERT INTO "campaign" VALUES('20261128-064803-d585','seventh release','finished','{"name":"seventh release","testbed":{"hosts":"testbed.yaml"},"testbeds":[],"spaces":{"fileserver":{"name":"openafs-fileserver-1.8","only":["threads","dir_buffers"],"also":[],"fix":{},"range":{},"allow_risk":[],"presets":[]},"cache_manager":{"name":"openafs-cache-manager-fuse-1.8","only":["daemons"],"also":[],"fix":{},"range":{},"allow_risk":[],"presets":[]}},"workload":{"name":"mixed-use","scale":1.0},"pilot":{"blocks":0,"override":false},"search":{"arms":3,"blocks_per_trial":3,"max_trials":3,"sampler":"model"},"budget":{"wall_time":900.0,"measurements":null},"statistics":{"delta":0.02,"floor":0.05,"adjust":false},"certification":{"blocks":12,"finalists":1,"share":0.4,"floors":"auto"},"references":[],"seed":1,"first":[{"fileserver.threads":200},{"fileserver.threads":20}],"compare":{},"stop":"budget","warm_start":"none"}',1,'2026-11-28 06:48:03.383426','2026-03-01 12:00:00.123456','','{"cache_manager.daemons":3,"fileserver.threads":64}',0.0,0.0,0.0,0.0);
CREATE TABLE component (
	campaign TEXT NOT NULL, 
	block INTEGER NOT NULL, 
	trial INTEGER NOT NULL, 
	component TEXT NOT NULL, 
	client TEXT NOT NULL, 
	elapsed_s DOUBLE NOT NULL CONSTRAINT ck_component_elapsed_s CHECK (elapsed_s > 0 AND elapsed_s < 1e9), 
	operations BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	p50_s DOUBLE CONSTRAINT ck_component_p50_s CHECK (p50_s >= 0 AND p50_s < 1e9), 
	p95_s DOUBLE CONSTRAINT ck_component_p95_s CHECK (p95_s >= 0 AND p95_s < 1e9), 
	p99_s DOUBLE CONSTRAINT ck_component_p99_s CHECK (p99_s >= 0 AND p99_s < 1e9), 
	max_s DOUBLE CONSTRAINT ck_component_max_s CHECK (max_s >= 0 AND max_s < 1e9), 
	CONSTRAINT pk_component PRIMARY KEY (campaign, block, trial, component, client), 
	CONSTRAINT ck_component_amounts CHECK (operations >= 0 AND bytes >= 0), 
	CONSTRAINT fk_component_campaign_measurement FOREIGN KEY(campaign, block, trial) REFERENCES measurement (campaign, block, trial)
);
CREATE TABLE covariate (
	campaign TEXT NOT NULL, 
	block INTEGER NOT NULL, 
	trial INTEGER NOT NULL, 
	others_server DOUBLE, 
	others_clients DOUBLE, 
	stolen_server DOUBLE, 
	stolen_clients DOUBLE, 
	iowait_server DOUBLE, 
	iowait_clients DOUBLE, 
	CONSTRAINT pk_covariate PRIMARY KEY (campaign, block, trial), 
	CONSTRAINT fk_covariate_campaign_measurement FOREIGN KEY(campaign, block, trial) REFERENCES measurement (campaign, block, trial)
);
CREATE TABLE effect (
	campaign TEXT NOT NULL, 
	component TEXT NOT NULL, 
	ratio DOUBLE NOT NULL, 
	lower DOUBLE NOT NULL, 
	upper DOUBLE NOT NULL, 
	floor_held BOOLEAN NOT NULL, 
	CONSTRAINT pk_effect PRIMARY KEY (campaign, component), 
	CONSTRAINT fk_effect_campaign_recommendation FOREIGN KEY(campaign) REFERENCES recommendation (campaign)
);
CREATE TABLE event (
	campaign TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	at DATETIME NOT NULL, 
	kind TEXT NOT NULL, 
	message TEXT NOT NULL, 
	data JSON NOT NULL, 
	CONSTRAINT pk_event PRIMARY KEY (campaign, number), 
	CONSTRAINT ck_event_number CHECK (number >= 1), 
	CONSTRAINT fk_event_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id)
);
INSERT INTO "event" VALUES('20261128-064803-d585',1,'2026-11-28 06:48:03.383426','campaign-created','campaign seventh release is created','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',2,'2026-11-28 06:48:03.383426','told','told by a test','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',3,'2026-11-28 06:48:03.383426','told','told by a test','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',4,'2026-11-28 06:48:03.383426','told','told by a test','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',5,'2026-11-28 06:48:03.383426','told','told by a test','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',6,'2026-11-28 06:48:03.383426','told','told by a test','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',7,'2026-11-28 06:48:03.383426','told','told by a test','{}');
INSERT INTO "event" VALUES('20261128-064803-d585',8,'2026-03-01 12:00:00.123456','apply-planned','a apply-planned happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20261128-064803-d585',9,'2026-03-01 12:00:00.123456','apply-planned','a apply-planned happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20261128-064803-d585',10,'2026-03-01 12:00:00.123456','applying','a applying happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20261128-064803-d585',11,'2026-03-01 12:00:00.123456','committing','a committing happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20261128-064803-d585',12,'2026-03-01 12:00:00.123456','applied','a applied happened','{"share":0.1,"number":3,"none":null}');
CREATE TABLE lease (
	testbed TEXT NOT NULL, 
	campaign TEXT NOT NULL, 
	token TEXT NOT NULL, 
	host TEXT NOT NULL, 
	machine TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	start_ticks BIGINT NOT NULL, 
	taken DATETIME NOT NULL, 
	beat DATETIME NOT NULL, 
	limit_s DOUBLE NOT NULL CONSTRAINT ck_lease_limit_s CHECK (limit_s > 0 AND limit_s < 1e9), 
	CONSTRAINT pk_lease PRIMARY KEY (testbed), 
	CONSTRAINT fk_lease_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id)
);
CREATE TABLE mark (
	id TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_mark PRIMARY KEY (id)
);
CREATE TABLE measured_with (
	campaign TEXT NOT NULL, 
	aspect TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	document JSON NOT NULL, 
	CONSTRAINT pk_measured_with PRIMARY KEY (campaign, aspect), 
	CONSTRAINT fk_measured_with_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id)
);
CREATE TABLE measurement (
	campaign TEXT NOT NULL, 
	block INTEGER NOT NULL, 
	trial INTEGER NOT NULL, 
	position INTEGER NOT NULL CONSTRAINT ck_measurement_place CHECK (position >= 0), 
	started DATETIME NOT NULL, 
	requested JSON NOT NULL, 
	effective JSON NOT NULL, 
	actions JSON NOT NULL, 
	apply_s DOUBLE NOT NULL CONSTRAINT ck_measurement_apply_s CHECK (apply_s >= 0 AND apply_s < 1e9), 
	workload_s DOUBLE NOT NULL CONSTRAINT ck_measurement_workload_s CHECK (workload_s >= 0 AND workload_s < 1e9), 
	diagnostics JSON NOT NULL, 
	engine_sha256 TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	CONSTRAINT pk_measurement PRIMARY KEY (campaign, block, trial), 
	CONSTRAINT uq_measurement_campaign_block_position UNIQUE (campaign, block, position), 
	CONSTRAINT fk_measurement_campaign_block FOREIGN KEY(campaign, block) REFERENCES block (campaign, number), 
	CONSTRAINT fk_measurement_trial FOREIGN KEY(campaign, trial) REFERENCES trial (campaign, number)
);
CREATE TABLE posted (
	"key" TEXT NOT NULL, 
	body TEXT NOT NULL, 
	campaign TEXT, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_posted PRIMARY KEY ("key"), 
	CONSTRAINT fk_posted_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id)
);
CREATE TABLE prior (
	campaign TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	configuration JSON NOT NULL, 
	difference DOUBLE NOT NULL, 
	origin TEXT NOT NULL, 
	CONSTRAINT pk_prior PRIMARY KEY (campaign, number), 
	CONSTRAINT fk_prior_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id)
);
CREATE TABLE recommendation (
	campaign TEXT NOT NULL, 
	answer VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	trial INTEGER NOT NULL, 
	configuration JSON NOT NULL, 
	baseline JSON NOT NULL, 
	flags JSON NOT NULL, 
	baseline_flags JSON NOT NULL, 
	confidence DOUBLE NOT NULL, 
	blocks INTEGER NOT NULL CONSTRAINT ck_recommendation_blocks CHECK (blocks >= 0), 
	ratio DOUBLE, 
	lower DOUBLE, 
	upper DOUBLE, 
	largest_compatible_improvement DOUBLE, 
	e_value DOUBLE, 
	threshold DOUBLE, 
	notes JSON NOT NULL, 
	CONSTRAINT pk_recommendation PRIMARY KEY (campaign), 
	CONSTRAINT ck_recommendation_confidence CHECK (confidence > 0 AND confidence < 1), 
	CONSTRAINT fk_recommendation_trial FOREIGN KEY(campaign, trial) REFERENCES trial (campaign, number), 
	CONSTRAINT fk_recommendation_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id), 
	CONSTRAINT ck_recommendation_answer CHECK (answer IN ('recommended', 'no_improvement'))
);
INSERT INTO "recommendation" VALUES('20261128-064803-d585','recommended','a test says so',1,'{"cache_manager.daemons":5,"fileserver.threads":200}','{"cache_manager.daemons":3,"fileserver.threads":64}','{"fileserver":["-p","200"],"cache_manager":["-daemons","5"]}','{"fileserver":["-p","64"],"cache_manager":["-daemons","3"]}',0.97,12,0.9,0.85,0.95,NULL,NULL,NULL,'[]');
CREATE TABLE reference (
	campaign TEXT NOT NULL, 
	block INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER NOT NULL CONSTRAINT ck_reference_place CHECK (position >= 0), 
	started DATETIME NOT NULL, 
	workload_s DOUBLE NOT NULL CONSTRAINT ck_reference_workload_s CHECK (workload_s >= 0 AND workload_s < 1e9), 
	page_cache VARCHAR(16), 
	engine_sha256 TEXT NOT NULL, 
	seed BIGINT NOT NULL, 
	CONSTRAINT pk_reference PRIMARY KEY (campaign, block, name), 
	CONSTRAINT fk_reference_campaign_block FOREIGN KEY(campaign, block) REFERENCES block (campaign, number), 
	CONSTRAINT ck_reference_pagecache CHECK (page_cache IN ('dropped', 'not_controllable'))
);
CREATE TABLE reference_component (
	campaign TEXT NOT NULL, 
	block INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	component TEXT NOT NULL, 
	elapsed_s DOUBLE NOT NULL CONSTRAINT ck_reference_component_elapsed_s CHECK (elapsed_s > 0 AND elapsed_s < 1e9), 
	operations BIGINT NOT NULL, 
	bytes BIGINT NOT NULL, 
	p50_s DOUBLE CONSTRAINT ck_reference_component_p50_s CHECK (p50_s >= 0 AND p50_s < 1e9), 
	p95_s DOUBLE CONSTRAINT ck_reference_component_p95_s CHECK (p95_s >= 0 AND p95_s < 1e9), 
	p99_s DOUBLE CONSTRAINT ck_reference_component_p99_s CHECK (p99_s >= 0 AND p99_s < 1e9), 
	max_s DOUBLE CONSTRAINT ck_reference_component_max_s CHECK (max_s >= 0 AND max_s < 1e9), 
	CONSTRAINT pk_reference_component PRIMARY KEY (campaign, block, name, component), 
	CONSTRAINT ck_reference_component_amounts CHECK (operations >= 0 AND bytes >= 0), 
	CONSTRAINT fk_reference_component_campaign_reference FOREIGN KEY(campaign, block, name) REFERENCES reference (campaign, block, name)
);
CREATE TABLE request (
	campaign TEXT NOT NULL, 
	wish VARCHAR(16) NOT NULL, 
	asked_by TEXT NOT NULL, 
	at DATETIME NOT NULL, 
	CONSTRAINT pk_request PRIMARY KEY (campaign), 
	CONSTRAINT fk_request_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id), 
	CONSTRAINT ck_request_wish CHECK (wish IN ('pause', 'cancel'))
);
CREATE TABLE token (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	scope VARCHAR(16) NOT NULL, 
	digest TEXT NOT NULL, 
	created DATETIME NOT NULL, 
	expires DATETIME, 
	revoked DATETIME, 
	parent TEXT, 
	CONSTRAINT pk_token PRIMARY KEY (id), 
	CONSTRAINT ck_token_scope CHECK (scope IN ('read', 'operate', 'admin')), 
	CONSTRAINT fk_token_parent_token FOREIGN KEY(parent) REFERENCES token (id)
);
CREATE TABLE trial (
	campaign TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	configuration JSON NOT NULL, 
	race INTEGER NOT NULL CONSTRAINT ck_trial_race CHECK (race >= 0), 
	origin TEXT NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	flags JSON NOT NULL, 
	reason TEXT NOT NULL, 
	CONSTRAINT pk_trial PRIMARY KEY (campaign, number), 
	CONSTRAINT ck_trial_number CHECK (number >= 0), 
	CONSTRAINT fk_trial_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id), 
	CONSTRAINT ck_trial_trialstate CHECK (state IN ('queued', 'running', 'complete', 'pruned', 'failed', 'cancelled'))
);
INSERT INTO "trial" VALUES('20261128-064803-d585',0,'{"cache_manager.daemons":3,"fileserver.threads":64}',0,'a test','complete','{"fileserver":["-p","200"],"cache_manager":["-daemons","5"]}','the campaign ended');
INSERT INTO "trial" VALUES('20261128-064803-d585',1,'{"cache_manager.daemons":5,"fileserver.threads":200}',1,'a test','complete','{"fileserver":["-p","200"],"cache_manager":["-daemons","5"]}','the campaign ended');
CREATE INDEX ix_campaign_newest ON campaign (created, id);
CREATE UNIQUE INDEX ix_block_one_running ON block (campaign, slot) WHERE state = 'running';
CREATE UNIQUE INDEX ix_block_one_on_a_testbed ON block (testbed) WHERE state = 'running';
CREATE INDEX ix_event_kind ON event (campaign, kind, number);
CREATE INDEX ix_application_campaign ON application (campaign, planned);
COMMIT;
