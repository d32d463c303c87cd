const { createOutlast } = require('outlast');
const { fromPg } = require('outlast/pg');
const { Pool } = require('pg');
const config = require('../outlast.config.js');

exports.pool = new Pool({ connectionString: process.env.OUTLAST_DATABASE_URL });
exports.outlast = createOutlast({ ...config, adapter: fromPg(exports.pool) });
