BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
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
	CONSTRAINT pk_block PRIMARY KEY (campaign, number), 
	CONSTRAINT ck_block_number CHECK (number >= 1), 
	CONSTRAINT fk_block_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id), 
	CONSTRAINT ck_block_blockkind CHECK (kind IN ('pilot', 'search', 'certify')), 
	CONSTRAINT ck_block_blockstate CHECK (state IN ('running', 'complete', 'void'))
);
INSERT INTO "block" VALUES('20260301-120000-8wj2',1,'search',1,'[1,0]','complete',12.25,'','hall 7');
INSERT INTO "block" VALUES('20260301-120000-8wj2',2,'search',1,'[1,0]','running',0.0,'planned','hall 7');
INSERT INTO "block" VALUES('20260301-120000-smzn',1,'search',1,'[1,0]','running',0.0,'planned',NULL);
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
INSERT INTO "campaign" VALUES('20260301-120000-8wj2','fourth release','running','{}',7,'2026-03-01 12:00:00.123456','2026-03-01 12:00:00.123456','','{"fileserver.nojumbo":false,"fileserver.threads":128}',20.0,1.0,2.0,16.0);
INSERT INTO "campaign" VALUES('20260301-120000-smzn','another','running','{}',8,'2026-03-01 12:00:00.123456','2026-03-01 12:00:00.123456','',NULL,0.0,0.0,0.0,0.0);
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
INSERT INTO "component" VALUES('20260301-120000-8wj2',1,1,'copy','',3.33333333333333314829e-01,12000,1099511627776,0.0001,0.0002,0.0003,0.5);
INSERT INTO "component" VALUES('20260301-120000-8wj2',1,1,'build','',4.94065645841247e-324,0,0,NULL,NULL,NULL,NULL);
INSERT INTO "component" VALUES('20260301-120000-8wj2',1,0,'copy','',3.33333333333333314829e-01,12000,1099511627776,0.0001,0.0002,0.0003,0.5);
INSERT INTO "component" VALUES('20260301-120000-8wj2',1,0,'build','',4.94065645841247e-324,0,0,NULL,NULL,NULL,NULL);
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
INSERT INTO "event" VALUES('20260301-120000-8wj2',1,'2026-03-01 12:00:00.123456','campaign-created','campaign fourth release is created','{}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',2,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',3,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',4,'2026-03-01 12:00:00.123456','started','a started happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',5,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',6,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',7,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',8,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',9,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',10,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-8wj2',11,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-smzn',1,'2026-03-01 12:00:00.123456','campaign-created','campaign another is created','{}');
INSERT INTO "event" VALUES('20260301-120000-smzn',2,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-smzn',3,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-smzn',4,'2026-03-01 12:00:00.123456','started','a started happened','{"share":0.1,"number":3,"none":null}');
INSERT INTO "event" VALUES('20260301-120000-smzn',5,'2026-03-01 12:00:00.123456','test','a test happened','{"share":0.1,"number":3,"none":null}');
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
	CONSTRAINT uq_lease_campaign UNIQUE (campaign), 
	CONSTRAINT fk_lease_campaign_campaign FOREIGN KEY(campaign) REFERENCES campaign (id)
);
INSERT INTO "lease" VALUES('hall 7','20260301-120000-8wj2','c0218d07901cae97','here','boot:1',4711,99,'2026-11-21 06:02:35.514342','2026-11-21 06:02:35.514342',3600.0);
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
INSERT INTO "measured_with" VALUES('20260301-120000-8wj2','testbed','ab','{"name":"hall 7"}');
INSERT INTO "measured_with" VALUES('20260301-120000-smzn','testbed','ab','{"name":"hall 7"}');
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
INSERT INTO "measurement" VALUES('20260301-120000-8wj2',1,1,0,'2026-03-01 12:00:00.000001','{"cachemanager.size":"large","fileserver.threads":256}','{"fileserver.nojumbo":false,"fileserver.threads":128}','["fileserver: restart","cachemanager: remount"]',3.00000000000000044408e-01,61.5,'{"calls":3.0,"calls_waited":0.7}','abababababababababababababababababababababababababababababababab',-1);
INSERT INTO "measurement" VALUES('20260301-120000-8wj2',1,0,1,'2026-03-01 12:00:00.000001','{"cachemanager.size":"large","fileserver.threads":256}','{"fileserver.nojumbo":false,"fileserver.threads":128}','["fileserver: restart","cachemanager: remount"]',3.00000000000000044408e-01,61.5,'{"calls":3.0,"calls_waited":0.7}','abababababababababababababababababababababababababababababababab',-1);
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
INSERT INTO "prior" VALUES('20260301-120000-8wj2',0,'{"cachemanager.size":"large","fileserver.threads":256}',-0.1,'earlier:2');
INSERT INTO "prior" VALUES('20260301-120000-smzn',0,'{"cachemanager.size":"large","fileserver.threads":256}',-0.1,'earlier:2');
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
INSERT INTO "reference" VALUES('20260301-120000-8wj2',1,'local-disk',1,'2026-03-01 12:00:00.123456',30.5,'dropped','cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd',7);
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
INSERT INTO "reference_component" VALUES('20260301-120000-8wj2',1,'local-disk','copy',0.25,12000,1099511627776,0.0001,0.0002,0.0003,0.5);
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
INSERT INTO "trial" VALUES('20260301-120000-8wj2',0,'{"fileserver.nojumbo":false,"fileserver.threads":128}',0,'sampler','running','{"fileserver":["-p","0"],"cachemanager":[]}','proposed');
INSERT INTO "trial" VALUES('20260301-120000-8wj2',1,'{"cachemanager.size":"large","fileserver.threads":256}',1,'sampler','running','{"fileserver":["-p","1"],"cachemanager":[]}','proposed');
INSERT INTO "trial" VALUES('20260301-120000-smzn',0,'{"fileserver.nojumbo":false,"fileserver.threads":128}',0,'sampler','running','{"fileserver":["-p","0"],"cachemanager":[]}','proposed');
INSERT INTO "trial" VALUES('20260301-120000-smzn',1,'{"cachemanager.size":"large","fileserver.threads":256}',1,'sampler','running','{"fileserver":["-p","1"],"cachemanager":[]}','proposed');
CREATE INDEX ix_campaign_newest ON campaign (created, id);
CREATE UNIQUE INDEX ix_block_one_on_a_testbed ON block (testbed) WHERE state = 'running';
CREATE UNIQUE INDEX ix_block_one_running ON block (campaign) WHERE state = 'running';
CREATE INDEX ix_event_kind ON event (campaign, kind, number);
COMMIT;
